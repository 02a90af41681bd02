"""Tests of one's own agent: what the pytest plugin and `pal test` have in common (docs/testing.md)."""
