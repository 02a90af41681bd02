"""From a channel's message to a run: accept durably, route, queue, one run per session."""
