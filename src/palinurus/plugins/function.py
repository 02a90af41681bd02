"""`@tool` and `@hook`: a typed Python function becomes a tool, or the handler of a hook point.

The schema comes from signature, type hints and docstring. What msgspec can read is a parameter: builtins, Literal,
Optional, lists, dicts, dataclasses, Structs, Annotated with a text or a `msgspec.Meta`.
"""

from __future__ import annotations

import asyncio
import inspect
import re
import typing
from collections.abc import Callable
from typing import Any, TypeVar, overload

import msgspec

from palinurus.core.types.messages import ImageBlock, TextBlock
from palinurus.core.types.tool import Tool, ToolContext, ToolEffect, ToolFailure, ToolOutput, make_output
from palinurus.plugins.hooks import HOOK_POINTS

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_SECTION = re.compile(
    r"^\s*(args|arguments|parameters|params|returns|raises|yields|examples?|notes?):\s*$", re.IGNORECASE
)
_ARGUMENT = re.compile(r"^\s*\*{0,2}(\w+)\s*(?:\([^)]*\))?:\s*(.*)$")
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
) -> FunctionTool | Callable[[Callable[..., Any]], FunctionTool]:
    """A tool out of a function, as a decorator with or without arguments.

    A parameter that is called `ctx`, or annotated with ToolContext, gets the context and is not shown to the model. A
    plain function runs in a thread. Raises TypeError for a signature the model could not be told.
    """

    def make(made: Callable[..., Any]) -> FunctionTool:
        about, notes = parse_docstring(inspect.getdoc(made) or "")
        named = name or made.__name__
        if not _NAME.fullmatch(named):
            raise TypeError(f"{named!r} cannot be the name of a tool: letters, digits, - and _ only")
        struct, context = _arguments(made, notes)
        return FunctionTool(
            name=named,
            description=description or about or named,
            parameters=_schema(struct),
            run=_runner(made, struct, context),
            effect=effect,
            owner=owner,
            sequential=sequential,
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


def parse_docstring(text: str) -> tuple[str, dict[str, str]]:
    """(what a docstring says before its sections, what its `Args:` says of each parameter)."""
    about: list[str] = []
    notes: dict[str, str] = {}
    section = name = ""
    for line in text.splitlines():
        head = _SECTION.match(line)
        if head is not None:
            section, name = head[1].lower(), ""
        elif not section:
            about.append(line)
        elif section.startswith(("arg", "param")) and line.strip():
            found = _ARGUMENT.match(line)
            if found is not None:
                name = found[1]
                notes[name] = found[2].strip()
            elif name:
                notes[name] = f"{notes[name]} {line.strip()}"
    return "\n".join(about).strip(), notes


def _arguments(function: Callable[..., Any], notes: dict[str, str]) -> tuple[type[msgspec.Struct], str]:
    """The parameters as a Struct, and the name of the one that takes the context."""
    where = f"{function.__name__}()"
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as exc:
        raise TypeError(f"{where}: a type hint cannot be read: {exc}") from exc
    context, fields = "", list[Any]()
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise TypeError(f"{where}: {parameter} cannot be told to a model; name each parameter")
        if name == "ctx" or hints.get(name) is ToolContext:
            context = name
            continue
        kind = _noted(hints.get(name, str), notes.get(name, ""))
        fields.append((name, kind) if parameter.default is parameter.empty else (name, kind, _default(parameter)))
    try:
        return msgspec.defstruct(f"{function.__name__}_arguments", fields, kw_only=True), context
    except TypeError as exc:
        raise TypeError(f"{where}: {exc}") from exc


def _default(parameter: inspect.Parameter) -> Any:
    """Mutable defaults are copied for each call, as people expect and Python does not."""
    value = parameter.default
    if isinstance(value, list | dict | set):
        return msgspec.field(default_factory=lambda: value.copy())
    return value


def _noted(kind: Any, note: str) -> Any:
    """The type with its description: a text in Annotated, else what the docstring says."""
    more = list(getattr(kind, "__metadata__", ()))
    told = next((one for one in more if isinstance(one, str)), note)
    if not told or any(isinstance(one, msgspec.Meta) and one.description for one in more):
        return kind
    return typing.Annotated[kind, msgspec.Meta(description=told)]


def _schema(struct: type[msgspec.Struct]) -> dict[str, Any]:
    try:
        (ref,), parts = msgspec.json.schema_components((struct,), ref_template="{name}")
    except TypeError as exc:
        raise TypeError(f"{struct.__name__}: {str(exc).splitlines()[-1]}") from exc
    made = _inlined(ref, parts, ())
    return {"type": "object", "properties": made.get("properties", {}), "required": made.get("required", [])}


def _inlined(value: Any, parts: dict[str, Any], within: tuple[str, ...]) -> Any:
    """Without references, which not every vendor takes; optional values without their null."""
    if isinstance(value, list):
        return [_inlined(one, parts, within) for one in value]
    if not isinstance(value, dict):
        return value
    if "$ref" in value:
        name = str(value["$ref"])
        if name in within:
            raise TypeError(f"{name} contains itself, which cannot be told to a model")
        rest = {k: v for k, v in value.items() if k != "$ref"}
        return {**_inlined(parts[name], parts, (*within, name)), **rest}
    made = {k: _inlined(v, parts, within) for k, v in value.items() if k != "title"}
    options = [one for one in made.get("anyOf", ()) if one != {"type": "null"}]
    if len(options) == 1 and len(made["anyOf"]) == 2:
        del made["anyOf"]
        made = {**options[0], **made}
    if made.get("default", 0) is None:
        del made["default"]
    return made


def _runner(function: Callable[..., Any], struct: type[msgspec.Struct], context: str) -> Callable[..., Any]:
    async def run(ctx: ToolContext, **given: Any) -> ToolOutput:
        try:
            read = msgspec.convert(given, struct, strict=False)
        except msgspec.ValidationError as exc:
            raise ToolFailure(f"Invalid arguments: {exc}") from exc
        named = {field: getattr(read, field) for field in struct.__struct_fields__}
        if context:
            named[context] = ctx
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
