"""MCP at the gateway: sign-ins to servers of others (and to vendors), and our own server over HTTP."""
