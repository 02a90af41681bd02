"""A fake Slack: `server.FakeSlack`."""
