"""Tools of MCP servers. Only `link`, `pipe` and `transport` know the official SDK; they are loaded when one is used."""
