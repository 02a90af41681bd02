"""find and grep: `tools` asks, `worker` does the work in a process of its own."""
