"""Discord. `channel.py` is the whole of it; `inbound.py` and `outbound.py` translate, `reader.py` takes events
in, `progress.py` knows how far we have read, `wire.py` is the connection.
"""
