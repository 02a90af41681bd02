"""Google Chat: signed requests in, the Chat API with a service account out. docs/channels/googlechat.md."""
