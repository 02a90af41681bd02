"""Tools of MCP servers. Only `link`, `pipe` and `guard` know the official SDK; they are loaded when one is used."""
