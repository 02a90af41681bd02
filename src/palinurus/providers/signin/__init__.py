"""Tokens of people who signed in: where they are kept, how they are renewed, how one signs in."""
