"""Tools that make something to hear or to see; what they made goes to the person with the answer."""
