"""Parts that a program waiting for its first message does not need: loaded when they are first asked for.

One table, so that everything which is not loaded at the start is found here. A row names "module:attribute"; who asks
must be allowed to import that module. It knows names only.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

PARTS: dict[str, str] = {
    # what a client on a WebSocket needs
    "methods": "palinurus.gateway.methods:METHODS",
    "questions": "palinurus.gateway.methods.approvals:attach_approvals",
    "schedules": "palinurus.gateway.methods.cron:attach_schedules",
    "connection": "palinurus.gateway.ws.connection:ClientConnection",
    # configs and manifests that are not plain JSON
    "json5": "palinurus.config.json5:decode",
    # runs that another program does
    "programs": "palinurus.agent.runtimes.programs:ProgramRunner",
    # tool servers; needs the extra `mcp`
    "mcp": "palinurus.tools.mcp.link:connect_server",
    # plugins that came with packages: costs more than all of ours that look for plugins
    "packages": "importlib.metadata:entry_points",
}


@cache
def load_part(name: str) -> Any:
    """The part that a row names. Raises KeyError without a row, ModuleNotFoundError where its extra is missing."""
    module, _, attribute = PARTS[name].partition(":")
    return getattr(import_module(module), attribute)
