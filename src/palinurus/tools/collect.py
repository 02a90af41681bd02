"""Which tools there are: one table. A new tool is a new row."""

from __future__ import annotations

from palinurus.core.types.tool import Tool
from palinurus.tools import edit, exec, ls, read, write
from palinurus.tools.search import find, grep

_TOOLS: tuple[Tool, ...] = (read.TOOL, write.TOOL, edit.TOOL, ls.TOOL, find.TOOL, grep.TOOL, exec.TOOL)


def builtin() -> dict[str, Tool]:
    """The tools that come with Palinurus, by name, in the order the model is told of them."""
    return {tool.name: tool for tool in _TOOLS}
