"""`@define_tool`: a typed function becomes a tool of ours. Its docstring and hints are what the model is told.

Ports are positional-only parameters before `ctx`; `bind_tools` fills them. Arguments arrive checked (`tools.call`), so
the function neither converts nor bounds them again.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import cache, partial
from typing import Any

import msgspec

from palinurus.core.signature import ToolSignature, read_signature
from palinurus.core.types.tool import LateTool, Tool, ToolEffect, ToolOutput
from palinurus.tools.files.paths import shorten_path


def define_tool(
    name: str,
    *,
    description: str = "",
    effect: ToolEffect = "effect",
    summary: Callable[[dict[str, Any]], str] | tuple[str, ...] = (),
    aliases: Mapping[str, str] = {},
    owner: bool = False,
    sequential: bool = False,
) -> Callable[[Callable[..., Awaitable[ToolOutput]]], Tool]:
    """A tool out of an async function, as a decorator. Without a `description` the docstring is told.

    `summary`: a function, or the arguments of which the first that is given is shown. `aliases`: for each argument of
    ours the names that models use for it, with blanks between them.
    """

    def make(function: Callable[..., Awaitable[ToolOutput]]) -> Tool:
        # With the first call: reading 28 of them was a twentieth of a one-shot.
        read = cache(partial(read_signature, function, ours=True))
        shown = (partial(summarize_first, summary) if summary else None) if isinstance(summary, tuple) else summary

        async def run(*lead: Any, **given: Any) -> ToolOutput:
            return await function(*lead, **read()[0].bind(given))

        return LateTool(
            name,
            description or " ".join((inspect.getdoc(function) or name).split()),
            {},
            run,
            effect=effect,
            sequential=sequential,
            summary=shown,
            aliases={theirs: ours for ours, words in aliases.items() for theirs in words.split()},
            owner=owner,
            schema=partial(tell_schema, function, read),
        )

    return make


def tell_schema(
    function: Callable[..., Awaitable[ToolOutput]], read: Callable[[], tuple[ToolSignature, dict[str, Any]]]
) -> dict[str, Any]:
    """What the model is told of the arguments: as it stands in schemas.json (a test compares), or read now."""
    return _load_schemas().get(f"{function.__module__}:{function.__name__}") or read()[1]


@cache
def _load_schemas() -> dict[str, dict[str, Any]]:
    with open(os.path.join(os.path.dirname(__file__), "schemas.json"), "rb") as file:
        return msgspec.json.decode(file.read(), type=dict[str, dict[str, Any]])


def bind_tools(tools: Iterable[Tool], *ports: Any) -> dict[str, Tool]:
    """The tools by name, each with its ports in place."""
    return {tool.name: msgspec.structs.replace(tool, run=partial(tool.run, *ports)) for tool in tools}


def summarize_first(names: tuple[str, ...], args: Mapping[str, Any]) -> str:
    """The first of these arguments that is given, for a progress line."""
    return shorten_path(str(next((value for name in names if (value := args.get(name))), "")))
