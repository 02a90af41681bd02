"""Sessions: the record of each, its transcript file, and when it starts anew."""
