"""Palinurus: a personal AI agent that runs on your own machine and answers where you already chat.

`from palinurus import Agent, tool, hook` is the whole of it for programs that embed an agent; see docs/embedding.md.
The names load what they need when they are asked for, so that importing the package costs nothing.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from palinurus.app.embed import Agent as Agent
    from palinurus.app.embed import AgentAnswer as AgentAnswer
    from palinurus.core.types.tool import ToolReach as ToolReach
    from palinurus.plugins.function import hook as hook
    from palinurus.plugins.function import tool as tool

__version__ = "0.3.0"

_NAMES = {
    "Agent": "palinurus.app.embed:Agent",
    "AgentAnswer": "palinurus.app.embed:AgentAnswer",
    "ToolReach": "palinurus.core.types.tool:ToolReach",
    "hook": "palinurus.plugins.function:hook",
    "tool": "palinurus.plugins.function:tool",
}


def __getattr__(name: str) -> object:
    """The public names, loaded on first use. Raises AttributeError."""
    if name not in _NAMES:
        raise AttributeError(f"module 'palinurus' has no attribute {name!r}")
    module, _, attribute = _NAMES[name].partition(":")
    __import__(module)
    return getattr(sys.modules[module], attribute)
