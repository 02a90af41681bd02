"""The tape of a run: all that came from outside while it went, to play it again (docs/replay.md)."""
