"""Feishu and Lark: encrypted, signed events in, the open platform's API out. docs/channels/feishu.md."""
