"""Thinking, fast, verbose, trace and reasoning: words, profiles, resolution. Pure tables."""
