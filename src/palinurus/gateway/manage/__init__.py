"""Methods that change what the program is made of: skills of a store, chat apps, plugins, notifications."""
