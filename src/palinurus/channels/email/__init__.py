"""E-mail, over any server: IMAP to receive, SMTP to send. `docs/channels/email.md`."""
