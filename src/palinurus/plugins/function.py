"""`@tool` and `@hook`: a typed Python function becomes a tool, or the handler of a hook point.

The schema comes from signature, type hints and docstring (`core.signature`).
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, overload

import msgspec

from palinurus.core.signature import ToolSignature, parse_docstring, read_signature
from palinurus.core.types.messages import ImageBlock, TextBlock
from palinurus.core.types.tool import Tool, ToolContext, ToolEffect, ToolFailure, ToolOutput, ToolReach, make_output
from palinurus.patterns import compile_late
from palinurus.plugins.hooks import HOOK_POINTS

_NAME = compile_late(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
F = TypeVar("F", bound=Callable[..., Any])


class FunctionTool(Tool, frozen=True, kw_only=True):
    """A tool made of a function; calling it calls the function."""

    function: Callable[..., Any]

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self.function(*args, **named)


class HookFunction:
    """A function that wants to handle a point; calling it calls the function."""

    def __init__(self, point: str, call: Callable[[dict[str, Any]], Any], priority: int) -> None:
        self.point = point
        self.call = call
        self.priority = priority

    def __call__(self, event: dict[str, Any]) -> Any:
        return self.call(event)


@overload
def tool(function: Callable[..., Any], /) -> FunctionTool: ...


@overload
def tool(
    *,
    name: str = "",
    description: str = "",
    effect: ToolEffect = "effect",
    owner: bool = False,
    sequential: bool = False,
    reach: ToolReach | None = None,
) -> Callable[[Callable[..., Any]], FunctionTool]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str = "",
    description: str = "",
    effect: ToolEffect = "effect",
    owner: bool = False,
    sequential: bool = False,
    reach: ToolReach | None = None,
) -> FunctionTool | Callable[[Callable[..., Any]], FunctionTool]:
    """A tool out of a function, as a decorator with or without arguments.

    A parameter that is called `ctx`, or annotated with ToolContext, gets the context and is not shown to the model. A
    plain function runs in a thread. `reach` says what the gate may know (docs/security.md). Raises TypeError for a
    signature the model could not be told.
    """

    def make(made: Callable[..., Any]) -> FunctionTool:
        about, notes = parse_docstring(inspect.getdoc(made) or "")
        named = name or made.__name__
        if not _NAME.fullmatch(named):
            raise TypeError(f"{named!r} cannot be the name of a tool: letters, digits, - and _ only")
        signature, schema = read_signature(made, notes)
        return FunctionTool(
            name=named,
            description=description or about or named,
            parameters=schema,
            run=_runner(made, signature),
            effect=effect,
            owner=owner,
            sequential=sequential,
            reach=reach,
            function=made,
        )

    return make if function is None else make(function)


def hook(point: str, *, priority: int = 0) -> Callable[[Callable[[dict[str, Any]], Any]], HookFunction]:
    """The handler of a hook point, as a decorator. Raises KeyError for a point that does not exist."""
    HOOK_POINTS[point]
    return lambda call: HookFunction(point, call, priority)


def make_async_handler(point: str, call: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any]], Any]:
    """A handler that does not hold the program up: a plain function runs in a thread, but at a synchronous point."""
    inner = call.call if isinstance(call, HookFunction) else call
    if HOOK_POINTS[point].kind == "sync" or inspect.iscoroutinefunction(inner):
        return inner

    async def run(event: dict[str, Any]) -> Any:
        result = await asyncio.to_thread(inner, event)
        return await result if inspect.isawaitable(result) else result

    return run


def _runner(function: Callable[..., Any], signature: ToolSignature) -> Callable[..., Any]:
    async def run(ctx: ToolContext, **given: Any) -> ToolOutput:
        try:
            named = signature.bind(given)
        except msgspec.ValidationError as exc:
            raise ToolFailure(f"Invalid arguments: {exc}") from exc
        if signature.context:
            named[signature.context] = ctx
        if inspect.iscoroutinefunction(function):
            result = await function(**named)
        else:
            result = await asyncio.to_thread(function, **named)
            result = await result if inspect.isawaitable(result) else result
        return to_output(result)

    return run


def to_output(result: Any) -> ToolOutput:
    """What a function returned, as a tool's output: a text as it is, an image, anything else as JSON."""
    if isinstance(result, ToolOutput):
        return result
    if result is None:
        return make_output("Done.")
    if isinstance(result, str):
        return make_output(result)
    if isinstance(result, TextBlock | ImageBlock):
        return ToolOutput((result,))
    return make_output(msgspec.json.encode(result).decode(), msgspec.to_builtins(result))
