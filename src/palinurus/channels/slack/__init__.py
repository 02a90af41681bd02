"""Slack: socket mode or signed requests in, the Web API out. docs/channels/slack.md."""
