"""A fake Discord on loopback: `server.py` speaks its REST API, `gateway.py` its gateway, `state.py` is what exists."""
