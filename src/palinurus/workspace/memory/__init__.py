"""The agent's memory: Markdown files of the workspace, an index to search them, a history of who changed them."""
