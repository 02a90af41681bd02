"""A Telegram on loopback: `server.py` is the fake a test talks to, `api.py` its Bot API and what it makes of HTML."""
