"""Durable rows: inbox, outbox, sessions, usage, slots, and the journal in front of the transcript files."""
