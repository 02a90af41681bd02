"""The ways from the command line to the program: to a running gateway, or by an App of its own."""
