"""The agent behind other programs' protocols: ACP for editors, MCP for tool clients."""
