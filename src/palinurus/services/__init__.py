"""What needs `submit` but is no message on its way in: sub-agents, approvals, promises, other sessions."""
