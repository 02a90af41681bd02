"""The generic webhook: programs that are not on any chat platform talk to the agent with signed HTTP requests."""
