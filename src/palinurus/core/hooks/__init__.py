"""Webhooks as rules: signatures, templates, rates. Pure: bodies, secrets and the time are handed in."""
