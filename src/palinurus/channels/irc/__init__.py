"""IRC, with a small client of our own."""
