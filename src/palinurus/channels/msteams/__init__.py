"""Microsoft Teams: the Bot Framework's signed requests in, its Connector out. docs/channels/msteams.md."""
