"""LINE: signed requests in, the Messaging API out. docs/channels/line.md."""
