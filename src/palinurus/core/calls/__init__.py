"""Tool calls that small models write as text: found, read, mended, made into calls. Pure."""
