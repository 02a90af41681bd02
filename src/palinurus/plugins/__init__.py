"""Hooks and plugins: called by everyone above, call nobody."""
