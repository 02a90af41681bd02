"""Models on this machine: which files there are, how they are fetched, and the runtime that answers from them.

The runtime is C++ and may crash: it runs in a child process (`engine`), spoken to over pipes (`runtime`), so that
its end is a failed call and not the end of the program.
"""
