"""Model text on its way to people: reasoning tags, marks, silence, chunks, tool lines. Machines without I/O."""
