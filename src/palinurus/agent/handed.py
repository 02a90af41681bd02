"""Tools that belong to the caller of an HTTP interface: offered to the model beside ours, run by nobody here.

A call of one ends the run; the caller runs it and comes back with what it returned. Comes with the message
(`options.clientTools`), so a run that is taken up after a crash has them too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from palinurus.agent.offer import ToolOffer
from palinurus.core.types.tool import Tool, ToolContext, ToolOutput, make_output

OPTION = "clientTools"
ASKED = "Handed to the caller, who runs it. Stop here: what it returns comes with the next message."


def add_client_tools(offer: ToolOffer, options: Mapping[str, Any]) -> ToolOffer:
    """The offer with the caller's tools in it; where names are the same, the caller's is meant."""
    wanted = options.get(OPTION)
    if not wanted:
        return offer
    tools = {**offer.tools, **{str(each["name"]): _tool(each) for each in wanted}}
    return offer._replace(tools=tools, specs=tuple(tool.spec for tool in tools.values()))


def _tool(described: Mapping[str, Any]) -> Tool:
    parameters = dict(described.get("parameters") or {}) or {"type": "object", "properties": {}}
    name, told = str(described["name"]), str(described.get("description") or "")
    return Tool(name, told, parameters, _ask, effect="pure", origin="client")


async def _ask(ctx: ToolContext, **arguments: Any) -> ToolOutput:
    return msgspec.structs.replace(make_output(ASKED), terminate=True)
