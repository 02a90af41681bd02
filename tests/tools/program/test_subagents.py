"""agents_list."""

from __future__ import annotations

import json
from typing import Any

from palinurus.core.types.messages import ToolCall
from palinurus.plugins.hooks import Hooks
from palinurus.tools.call import call_tool
from palinurus.tools.program.subagents import AgentListing, make_agents_tool


class Two:
    def agents(self, caller: str) -> tuple[bool, list[AgentListing]]:
        return False, [AgentListing(caller, "Main", True), AgentListing("gone", "gone", False)]


async def test_the_list(ctx: Any) -> None:
    result = await call_tool(ToolCall("c", "agents_list", {}), make_agents_tool(Two()), ctx, Hooks())
    assert result.details == json.loads(result.text) == {
        "requester": "main",
        "allowAny": False,
        "agents": [
            {"id": "main", "name": "Main", "configured": True},
            {"id": "gone", "name": "gone", "configured": False},
        ],
    }  # fmt: skip
