"""A fake homeserver: `server.FakeMatrix`."""
