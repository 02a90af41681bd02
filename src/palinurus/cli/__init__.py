"""The command `pal`: one module a command, loaded only when it is asked for (`main.COMMANDS`)."""
