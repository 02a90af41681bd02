"""Containment of children by the kernel. `launch.wrapped` is the one door; `probe` knows what this machine has."""
