"""Room in long conversations: when to compact, what is kept word for word, and the model that summarises."""
