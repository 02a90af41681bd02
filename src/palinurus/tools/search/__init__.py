"""find and grep. `worker` does the work in a process of its own; `find` and `grep` are the tools that ask it."""
