"""Telegram, through the Bot API: long polling, or requests to us (webhook). `docs/channels/telegram.md`."""
