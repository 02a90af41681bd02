"""Model text on its way to people: silence, and later tags, marks and chunks."""
