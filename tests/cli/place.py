"""Where the package is, for tests that start it as a program."""

from __future__ import annotations

from pathlib import Path

import palinurus

SRC = str(Path(palinurus.__file__).parent.parent)
