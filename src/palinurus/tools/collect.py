"""Which tools there are: one table. A new tool is a new row."""

from __future__ import annotations

from palinurus.core.types.tool import Tool
from palinurus.tools import edit, exec, ls, memory, read, status, write
from palinurus.tools.memory import Recall
from palinurus.tools.search import find, grep
from palinurus.tools.status import Status

_TOOLS: tuple[Tool, ...] = (read.TOOL, write.TOOL, edit.TOOL, ls.TOOL, find.TOOL, grep.TOOL, exec.TOOL)


def builtin() -> dict[str, Tool]:
    """The tools that come with Palinurus, by name, in the order the model is told of them."""
    return {tool.name: tool for tool in _TOOLS}


def every(recall: Recall, standing: Status) -> dict[str, Tool]:
    """All tools: those that need nothing, and those that see a part of the program through a port."""
    return {**builtin(), **memory.make(recall), **status.make(standing)}
