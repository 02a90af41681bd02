"""The `nodes` tool, and `exec host=node`."""
