"""Mattermost: its WebSocket in, its REST API out. docs/channels/mattermost.md."""
