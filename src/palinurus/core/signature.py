"""What a typed function takes, as the arguments of a tool: read once from hints and docstring, for plugins and ours.

What msgspec can read is a parameter: builtins, Literal, Optional, lists, dicts, dataclasses, Structs, Annotated with a
text or a `msgspec.Meta`. Pure; runs nothing.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from palinurus.core.types.tool import ToolContext
from palinurus.patterns import compile_late

_WORDS = "type items additionalProperties enum minimum maximum description properties required".split()
OPEN_OBJECT = msgspec.Meta(extra_json_schema={"additionalProperties": True})  # for Annotated: any keys are taken
WHOLE = "args"  # a Struct of this name is the whole parameter list
_SECTION = compile_late(
    r"^\s*(args|arguments|parameters|params|returns|raises|yields|examples?|notes?):\s*$", re.IGNORECASE
)
_ARGUMENT = compile_late(r"^\s*\*{0,2}(\w+)\s*(?:\([^)]*\))?:\s*(.*)$")


class ToolSignature(msgspec.Struct, frozen=True):
    """`context` names the parameter that takes the ToolContext; `others`: what no parameter names is taken too."""

    struct: type[msgspec.Struct]
    context: str
    whole: bool
    others: bool

    def bind(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments by parameter, converted. Raises msgspec.ValidationError."""
        read = msgspec.convert(given, self.struct, strict=False)
        named: dict[str, Any] = {WHOLE: read} if self.whole else msgspec.structs.asdict(read)
        if self.others:
            named |= {name: given[name] for name in given if name not in self.struct.__struct_encode_fields__}
        return named


def pick_one(about: str, *words: str) -> msgspec.Meta:
    """For Annotated: a text that must be one of these words, told in this order."""
    return msgspec.Meta(description=about or None, extra_json_schema={"enum": list(words)})


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


def read_signature(
    function: Callable[..., Any], notes: Mapping[str, str] = {}, *, ours: bool = False
) -> tuple[ToolSignature, dict[str, Any]]:
    """How to call it, and the JSON schema. Raises TypeError for what cannot be told to a model.

    `ours`: positional-only parameters are ports that we bind, a Struct called `args` is the whole list, `**` takes what
    else is given; neither defaults nor the docstrings of Structs are told.
    """
    where = f"{function.__name__}()"
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as exc:
        raise TypeError(f"{where}: a type hint cannot be read: {exc}") from exc
    context, others, fields = "", False, list[Any]()
    for name, one in inspect.signature(function).parameters.items():
        if name == "ctx" or hints.get(name) is ToolContext:
            context = name
        elif ours and one.kind is one.VAR_KEYWORD:
            others = True
        elif one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD, one.POSITIONAL_ONLY):
            if not ours or one.kind is one.VAR_POSITIONAL:
                raise TypeError(f"{where}: {one} cannot be told to a model; name each parameter")
        else:
            kind = hints.get(name, str)
            fields.append((name, kind) if one.default is one.empty else (name, kind, _default(one.default)))
    whole = ours and [field[0] for field in fields] == [WHOLE]
    try:
        made = fields[0][1] if whole else msgspec.defstruct(f"{function.__name__}_arguments", fields, kw_only=True)
    except TypeError as exc:
        raise TypeError(f"{where}: {exc}") from exc
    schema = _schema(made, notes, ours)
    if ours and not schema["required"]:
        del schema["required"]
    return ToolSignature(made, context, whole, others), schema | ({"additionalProperties": True} if others else {})


def _default(value: Any) -> Any:
    """Mutable defaults are copied for each call, as people expect and Python does not."""
    if isinstance(value, list | dict | set):
        return msgspec.field(default_factory=lambda: value.copy())
    return value


def _schema(struct: type[msgspec.Struct], notes: Mapping[str, str], ours: bool) -> dict[str, Any]:
    """Parameters are described by their Meta, by a text in Annotated, or by what the docstring says."""
    try:
        (ref,), parts = msgspec.json.schema_components((struct,), ref_template="{name}")
    except TypeError as exc:
        raise TypeError(f"{struct.__name__}: {str(exc).splitlines()[-1]}") from exc
    if ours:
        for part in parts.values():
            part.pop("description", None)
    made = _inlined(ref, parts, (), frozenset(("title", "default") if ours else ("title",)))
    told = made.get("properties", {})
    for field in msgspec.structs.fields(struct):
        texts = (one for one in getattr(field.type, "__metadata__", ()) if isinstance(one, str))
        if text := next(texts, notes.get(field.name, "")):
            told[field.encode_name].setdefault("description", text)
    told = _ordered(told) if ours else told
    closed = {"additionalProperties": False} if "additionalProperties" in made else {}
    return {"type": "object", "properties": told, "required": made.get("required", []), **closed}


def _ordered(properties: dict[str, Any]) -> dict[str, Any]:
    """Each property with its words in one order, whatever order msgspec has: prompt caches look at bytes."""
    made = {}
    for name, value in properties.items():
        words = {**dict.fromkeys(_WORDS, ...), **value}
        if "items" in value:
            words["items"] = _ordered({"": value["items"]})[""]
        if "properties" in value:
            words["properties"] = _ordered(value["properties"])
        made[name] = {word: one for word, one in words.items() if one is not ...}
    return made


def _inlined(value: Any, parts: Mapping[str, Any], within: tuple[str, ...], dropped: frozenset[str]) -> Any:
    """Without references, which not every vendor takes; optional values without their null."""
    if isinstance(value, list):
        return [_inlined(one, parts, within, dropped) for one in value]
    if not isinstance(value, dict):
        return value
    if "$ref" in value:
        name = str(value["$ref"])
        if name in within:
            raise TypeError(f"{name} contains itself, which cannot be told to a model")
        rest = {k: v for k, v in value.items() if k != "$ref"}
        return {**_inlined(parts[name], parts, (*within, name), dropped), **rest}
    made = {k: _inlined(v, parts, within, dropped) for k, v in value.items() if k not in dropped | {"properties"}}
    if "properties" in value:  # whose keys are names of parameters, not words of the schema
        made["properties"] = {k: _inlined(v, parts, within, dropped) for k, v in value["properties"].items()}
    options = [one for one in made.get("anyOf", ()) if one != {"type": "null"}]
    if len(options) == 1 and len(made["anyOf"]) == 2:
        del made["anyOf"]
        made = {**options[0], **made}
    if made.get("default", 0) is None:
        del made["default"]
    return made
