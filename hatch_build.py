"""Puts the web page into a wheel: builds it if `make web` has not. An editable install goes without; `make` sees to it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class WebPage(BuildHookInterface):  # type: ignore[type-arg]
    """A wheel without the page still works; the gateway then says how to build it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        if version == "editable" or (root / "src/palinurus/gateway/static/index.html").is_file():
            return
        if (root / "web/build.py").is_file():
            subprocess.run([sys.executable, str(root / "web/build.py")], check=False)
