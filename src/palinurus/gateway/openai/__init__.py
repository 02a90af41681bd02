"""OpenAI-compatible HTTP: chat completions, responses and embeddings, read, answered and streamed."""
