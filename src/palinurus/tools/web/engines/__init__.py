"""Search engines: one file of facts each, pure. `request` says what to ask, `read` what the answer means."""
