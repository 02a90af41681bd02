"""Commands that go on: the table of running children, their terminals and keys, and the process tool."""
