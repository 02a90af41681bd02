"""The file tools: which path is meant, opening it by handle, and read, write, edit, ls, apply_patch."""
