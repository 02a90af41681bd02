"""Containment of children by the kernel. `launch.start_child` is the one way in; `probe` knows the machine."""
