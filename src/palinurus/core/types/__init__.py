"""The vocabulary. Read this folder first: messages, events, model, tool, keys, inbound, outbound, usage."""
