"""Which models there are, what their thinking levels send, and models that run on this machine."""
