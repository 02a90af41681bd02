"""A browser that the agent drives: Chromium in a sandbox of its own, with no network but through the egress guard."""
