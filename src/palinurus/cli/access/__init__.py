"""Who may: approvals, pairings and devices."""
