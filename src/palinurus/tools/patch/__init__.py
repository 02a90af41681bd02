"""apply_patch: `parse` reads the patch, `apply` finds the places in a text, `tool` does it to files."""
