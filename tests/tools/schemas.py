"""What models are told of our tools' arguments, read from the functions; `python tests/tools/schemas.py` writes it."""

from __future__ import annotations

import json
import pkgutil
import sys
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import palinurus.tools
from palinurus.core.types.tool import LateTool
from palinurus.tools.define import tell_schema

FILE = Path(palinurus.tools.__file__).with_name("schemas.json")


def read_schemas() -> dict[str, dict[str, Any]]:
    """By module and function, of every tool that a module defines."""
    found = {}
    for part in pkgutil.walk_packages(palinurus.tools.__path__, "palinurus.tools."):
        try:
            values = list(vars(import_module(part.name)).values())
        except ModuleNotFoundError:  # needs an extra
            continue
        for tool in values:
            if isinstance(tool, LateTool) and isinstance(tool.schema, partial) and tool.schema.func is tell_schema:
                function, read = tool.schema.args
                found[f"{function.__module__}:{function.__name__}"] = read()[1]
    return dict(sorted(found.items()))


def format_schemas() -> str:
    """One line for each, the words in the order in which they are told."""
    rows = (f"{json.dumps(name)}: {json.dumps(told, ensure_ascii=False)}" for name, told in read_schemas().items())
    return "{\n" + ",\n".join(rows) + "\n}\n"


if __name__ == "__main__":
    FILE.write_text(format_schemas(), encoding="utf-8")
    sys.exit(0)
