"""Commands: exec and process, what judges them, the children they start and the table that follows those."""
