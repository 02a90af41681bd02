"""`pal chat` as a full screen. Needs the extra `tui`; what it knows of the agent
comes over the gateway's protocol.
"""
