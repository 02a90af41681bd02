"""Nextcloud Talk: a bot's signed requests in and out. docs/channels/nextcloud-talk.md."""
