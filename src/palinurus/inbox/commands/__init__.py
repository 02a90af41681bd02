"""What people type that needs no model: one table (`table`), one small file per command, the levels in `levels`."""
