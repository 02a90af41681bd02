"""What the tests of MCP share: servers by config, a context, results."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

from palinurus.app import mcp
from palinurus.clock import SystemClock
from palinurus.config.load import load_config
from palinurus.core.types.tool import Tool, ToolContext, ToolOutput
from palinurus.tools.mcp.servers import McpServers
from palinurus.tools.web.egress import EgressGuard

HERE = Path(__file__).parent
TINY: dict[str, Any] = {"command": sys.executable, "args": [str(HERE / "tiny.py")]}
SAMPLE: dict[str, Any] = {"command": sys.executable, "args": [str(HERE / "sample.py")]}


class Asked:
    """As much of a context as these tools use."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def update(self, partial: str) -> None:
        self.shown.append(partial)


def context() -> ToolContext:
    return cast(ToolContext, Asked())


def text(output: ToolOutput) -> str:
    """Between the lines of the frame."""
    (block,) = [one for one in output.content if hasattr(one, "text")]
    return str(block.text).split("\n---\n", 1)[1].rsplit("\n<<<END_", 1)[0]


def settings(home: Path, servers: dict[str, Any], environ: dict[str, str] | None = None) -> Any:
    home.mkdir(exist_ok=True)
    (home / "palinurus.json").write_text(json.dumps({"mcp": {"servers": servers}}))
    return load_config(str(home), environ or {}).settings


@asynccontextmanager
async def joined(home: Path, **servers: Any) -> AsyncIterator[tuple[McpServers, dict[str, Tool]]]:
    """Connected, with the table of their tools."""
    made = mcp.make_mcp_servers(settings(home, servers), os.environ, SystemClock(), EgressGuard())
    table: dict[str, Tool] = {}
    made.attach(table, lambda: None)
    made.start()
    try:
        for server in made.all.values():
            await server.wait_settled()
        yield made, table
    finally:
        await made.close()
