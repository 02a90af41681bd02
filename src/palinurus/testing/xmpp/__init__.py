"""A fake XMPP server: `server.FakeXmpp`."""
