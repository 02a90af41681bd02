"""XMPP (Jabber), with a small client of our own. docs/channels/xmpp.md."""
