"""Matrix: a homeserver's client-server API, without end-to-end encryption. docs/channels/matrix.md."""
