"""Matrix: a homeserver's client-server API; encrypted rooms where its extra is installed. docs/channels/matrix.md."""
