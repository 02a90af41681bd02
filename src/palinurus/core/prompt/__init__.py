"""The system prompt: facts in, text out. `sections` holds the words, `order` the sequence, `render` joins."""
