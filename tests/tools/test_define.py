"""A typed function as a tool of ours: what the model is told, what the function is given."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from palinurus.core.signature import pick_one
from palinurus.core.types.tool import ToolContext, ToolOutput, make_output
from palinurus.tools.collect import make_builtin_tools
from palinurus.tools.define import bind_tools, define_tool
from tools.schemas import FILE, format_schemas


class Part(msgspec.Struct, frozen=True):
    """For readers of the source, not for models."""

    name: Annotated[str, Meta(description="Its name", max_length=9)]
    kind: Annotated[str, pick_one("Its kind", "b", "a")] = "a"


@define_tool("collect_parts", effect="pure", summary=("first", "second"), aliases={"first": "one eins"})
async def _collect(
    port: str,
    /,
    ctx: ToolContext,
    first: Annotated[str, "The first"] = "1",
    parts: Annotated[tuple[Part, ...], "Some parts"] = (),
    count: Annotated[int, Meta(ge=1, description="How many (5)")] | None = None,
    **other: Any,
) -> ToolOutput:
    """Collect
    parts."""
    return make_output(f"{port} {first} {[part.kind for part in parts]} {count} {other}")


def test_what_the_model_is_told() -> None:
    assert (_collect.name, _collect.description, _collect.effect) == ("collect_parts", "Collect parts.", "pure")
    assert _collect.aliases == {"one": "first", "eins": "first"}
    part = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "Its name", "maxLength": 9},
            "kind": {"type": "string", "enum": ["b", "a"], "description": "Its kind"},
        },
        "required": ["name"],
    }
    told = {
        "type": "object",
        "properties": {
            "first": {"type": "string", "description": "The first"},
            "parts": {"type": "array", "items": part, "description": "Some parts"},
            "count": {"type": "integer", "minimum": 1, "description": "How many (5)"},
        },
        "additionalProperties": True,
    }
    assert msgspec.json.encode(_collect.parameters) == msgspec.json.encode(told)  # in this order, too


async def test_ports_come_first_and_values_as_they_are_typed(ctx: ToolContext) -> None:
    tool = bind_tools((_collect,), "port")["collect_parts"]
    got = await tool.run(ctx, parts=[{"name": "x"}], more=3)
    assert got == make_output("port 1 ['a'] None {'more': 3}")


def test_the_progress_line_shows_the_first_that_is_given() -> None:
    assert _collect.summary is not None
    assert [_collect.summary(args) for args in ({}, {"second": 2}, {"first": "a", "second": "b"})] == ["", "2", "a"]


def test_no_tool_tells_references_or_nulls() -> None:
    for tool in make_builtin_tools().values():
        text = msgspec.json.encode(tool.parameters)
        assert b"$ref" not in text and b'"null"' not in text and b"anyOf" not in text, tool.name


def test_what_stands_in_the_file_is_what_the_functions_say() -> None:
    assert FILE.read_text(encoding="utf-8") == format_schemas(), "python tests/tools/schemas.py writes it anew"
