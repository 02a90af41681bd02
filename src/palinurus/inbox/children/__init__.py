"""Sub-agents: sessions that a session starts for one task. `nest.py` keeps them, `tools/spawn.py` is how models ask."""
