"""iMessage through a BlueBubbles server on a Mac: its webhooks in, its REST API out. docs/channels/bluebubbles.md."""
