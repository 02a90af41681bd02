"""SMS through Twilio: signed requests or polling in, the Messages API out. docs/channels/sms.md."""
