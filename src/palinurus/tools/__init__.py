"""Tools the model may call. `collect` lists them, `call` is the one door; nothing else runs a tool."""
