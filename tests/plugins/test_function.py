"""@tool and @hook: what becomes of a typed function."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Optional

import msgspec
import pytest

from palinurus.core.signature import parse_docstring
from palinurus.core.types.messages import ImageBlock
from palinurus.core.types.tool import ToolContext, ToolFailure, ToolOutput, make_output
from palinurus.plugins.function import hook, make_async_handler, to_output, tool
from palinurus.tools.schema import check_arguments


@dataclass
class Place:
    name: str
    depth: int = 3


class Port(msgspec.Struct):
    place: Place
    berths: list[int] = []


class Loop(msgspec.Struct):
    inner: Optional[Loop] = None  # noqa: UP045 - the name is not known yet


@tool(effect="pure")
def sail(
    to: Annotated[str, "the port"],
    wind: Literal["north", "south"],
    knots: float = 5,
    crew: list[str] = [],  # noqa: B006 - each call gets a copy
    port: Port | None = None,
    until: Optional[str] = None,  # noqa: UP045
    notes: Annotated[dict[str, int], msgspec.Meta(description="by day")] = {},  # noqa: B006
) -> str:
    """Sail somewhere.

    Takes a while.

    Args:
        to: not this, the annotation goes before it
        knots (float): how fast, on
            average
    Returns:
        what happened
    """
    crew.append("pilot")
    return f"{to} {wind} {knots} {crew} {port.place.name if port else '-'} {until}"


def test_the_schema_comes_from_the_signature() -> None:
    assert (sail.name, sail.effect, sail.owner) == ("sail", "pure", False)
    assert sail.description == "Sail somewhere.\n\nTakes a while."
    assert sail.parameters == {
        "type": "object",
        "required": ["to", "wind"],
        "properties": {
            "to": {"type": "string", "description": "the port"},
            "wind": {"enum": ["north", "south"]},
            "knots": {"type": "number", "default": 5, "description": "how fast, on average"},
            "crew": {"type": "array", "items": {"type": "string"}},
            "port": {
                "type": "object",
                "required": ["place"],
                "properties": {
                    "place": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {"name": {"type": "string"}, "depth": {"type": "integer", "default": 3}},
                    },
                    "berths": {"type": "array", "items": {"type": "integer"}, "default": []},
                },
            },
            "until": {"type": "string"},
            "notes": {
                "type": "object",
                "additionalProperties": {"type": "integer"},
                "description": "by day",
            },
        },
    }


async def called(made: Any, **args: Any) -> str:
    """As the one door calls it."""
    read, problem = check_arguments(made.parameters, args, made.aliases)
    assert problem is None, problem
    result = await made.run(None, **read)
    return str(result.content[0].text)


async def test_arguments_are_what_the_hints_say() -> None:
    port = {"place": {"name": "Brest"}, "berths": ["1"]}
    assert await called(sail, to="x", wind="North", knots="7", port=port) == "x north 7.0 ['pilot'] Brest None"
    assert await called(sail, to="x", wind="south") == "x south 5 ['pilot'] - None"  # the default was not changed
    assert sail("here", "north", crew=["a"]) == "here north 5 ['a', 'pilot'] - None"
    with pytest.raises(ToolFailure, match="port"):
        await sail.run(None, to="x", wind="south", port={"berths": [1]})


async def test_plain_functions_run_in_a_thread_and_async_ones_do_not() -> None:
    here = threading.get_ident()

    @tool
    def plain() -> bool:
        return threading.get_ident() == here

    @tool
    async def waits(ctx: ToolContext) -> bool:
        return threading.get_ident() == here and ctx is None

    assert (await called(plain), await called(waits)) == ("false", "true")


async def test_the_context_is_not_shown_to_the_model() -> None:
    @tool(name="who")
    async def asked(context: ToolContext, much: bool = True) -> str:
        return f"{context} {much}"

    assert asked.name == "who" and list(asked.parameters["properties"]) == ["much"]
    assert (await asked.run("ctx", much=False)).content[0].text == "ctx False"


def test_what_a_model_cannot_be_told_is_refused() -> None:
    def stars(*args: str) -> None: ...

    def positional(a: str, /) -> None: ...

    def unknown(a: NoSuchType) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    def circle(a: Loop) -> None: ...

    for bad in (stars, positional, unknown, circle):
        with pytest.raises(TypeError):
            tool(bad)
    with pytest.raises(TypeError, match="cannot be the name"):
        tool(name="no blanks")(lambda: None)


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ("as it is", "as it is"),
        (None, "Done."),
        (3, "3"),
        ({"a": [1]}, '{"a":[1]}'),
        (Place("x"), '{"name":"x","depth":3}'),
    ],
)
def test_results(result: Any, text: str) -> None:
    assert to_output(result).content[0].text == text  # type: ignore[union-attr]


def test_results_that_are_outputs_already() -> None:
    given = make_output("x", error=True)
    assert to_output(given) is given
    assert to_output(ImageBlock("QQ==", "image/png")) == ToolOutput((ImageBlock("QQ==", "image/png"),))


@pytest.mark.parametrize("text", ["", "One line", "A\n\nArgs:\n", "Args:\n  x: y\n\n  z\nReturns:\n  q: r"])
def test_docstrings_of_any_shape(text: str) -> None:
    about, notes = parse_docstring(text)
    assert about == text.partition("Args:")[0].strip()
    assert notes == ({"x": "y z"} if "x: y" in text else {})


async def test_a_hook_is_a_function_with_a_place() -> None:
    @hook("agent_end", priority=3)
    def seen(event: dict[str, Any]) -> dict[str, Any]:
        return {"thread": threading.get_ident()}

    assert (seen.point, seen.priority) == ("agent_end", 3) and seen({})["thread"] == threading.get_ident()
    assert (await make_async_handler("agent_end", seen)({}))["thread"] != threading.get_ident()
    assert make_async_handler("tool_result_persist", seen)({})["thread"] == threading.get_ident()
    with pytest.raises(KeyError):
        hook("no_such_point")


@dataclass
class Unused:
    """Defaults made by factories are told to the model as optional."""

    names: list[str] = field(default_factory=list)


def test_a_factory_is_a_default() -> None:
    @tool
    def take(a: Unused) -> None: ...

    assert "required" not in take.parameters["properties"]["a"] or not take.parameters["properties"]["a"]["required"]


def test_parameters_may_be_called_like_words_of_the_schema() -> None:
    @tool
    def name_it(title: str, default: int, enum: str = "") -> None: ...

    assert list(name_it.parameters["properties"]) == ["title", "default", "enum"]
    assert name_it.parameters["required"] == ["title", "default"]
