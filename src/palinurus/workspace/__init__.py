"""The agent's directory: its files, and what new ones start with."""
