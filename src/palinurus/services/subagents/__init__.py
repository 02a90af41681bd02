"""Sub-agents: runs that a run starts, follows and hears of; each is a message in the sub-agents' lane."""
