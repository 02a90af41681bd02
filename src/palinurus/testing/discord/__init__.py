"""A fake Discord on loopback: `server.py` speaks its REST API, `sessions.py` its gateway, `world.py` is what exists."""
