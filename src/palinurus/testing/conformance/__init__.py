"""Suites that every implementation of a port must pass. Subclass one in a test file and say how to open yours."""
