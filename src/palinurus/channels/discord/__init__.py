"""Discord. `channel.py` is the whole of it; `inbound.py` and `outbound.py` translate, `acts.py` does the rest,
`reader.py` takes events in, `gap.py` knows how far we have read, `wire.py` is the connection.
"""
