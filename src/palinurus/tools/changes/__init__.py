"""What runs change in their workspaces, kept so that it can be shown, undone and done again."""

from __future__ import annotations

import os

FOLDER = "changes"  # of the state directory


def was_cut_off(home: str) -> bool:
    """Was a call or an undo going on when the program was killed? Asked at every start, so it loads nothing."""
    top = os.path.join(home, FOLDER)
    try:
        return os.path.exists(os.path.join(top, "pending")) or bool(os.listdir(os.path.join(top, "open")))
    except OSError:
        return False
