"""What a wheel holds besides the package: the web page and the site of the docs (built
if `make` has not), the docs themselves, the versions we test with.

An editable install goes without: it finds docs and constraints.txt in its checkout, and `make` sees to the page.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class WheelContent(BuildHookInterface):  # type: ignore[type-arg]
    """A wheel without the page still works (the gateway says how to build it); `make wheel` insists on it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        if version == "editable":
            return
        if not (root / "src/palinurus/gateway/static/index.html").is_file() and (root / "web/build.py").is_file():
            subprocess.run([sys.executable, str(root / "web/build.py")], check=False)
        if not (root / "src/palinurus/gateway/site/index.html").is_file() and (root / "web/docs.py").is_file():
            subprocess.run([sys.executable, str(root / "web/docs.py")], check=False, stdout=subprocess.DEVNULL)
        for page in (*root.glob("docs/**/*.md"), root / "constraints.txt"):  # the docs' pictures are for people
            build_data["force_include"][str(page)] = f"palinurus/{page.relative_to(root)}"
