"""A Telegram on loopback: `people.py` is the fake a test talks to, `server.py` its Bot API, `markup.py` its HTML."""
