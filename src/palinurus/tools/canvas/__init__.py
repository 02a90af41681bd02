"""The `canvas` tool: pages that an agent shows to a person (docs/canvas.md). Only `offer.py` is loaded at the start."""
