"""What the agent remembers in files, seen purely: pieces, questions, ranks, excerpts, and who wrote a line."""
