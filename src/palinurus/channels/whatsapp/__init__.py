"""WhatsApp, as a linked device of a phone (neonize). `docs/channels/whatsapp.md`."""
