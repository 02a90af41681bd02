"""May this happen? Pure decisions with their reasons."""
