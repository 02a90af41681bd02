"""Nodes from the terminal: this machine as one (`pal node`), and those of this gateway (`pal nodes`, `pal qr`)."""
