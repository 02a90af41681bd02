"""The Responses API: function_call and its output, reasoning and the item it led to, item ids."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from palinurus.testing.validators.shape import (
    IDENT,
    check_base64,
    check_json_arguments,
    check_name,
    check_tool_schema,
    check_unique,
    is_blank,
)

_URL = re.compile(r"data:(image/(?:png|jpeg|gif|webp));base64,(.*)", re.S)
_PREFIX: dict[str, str] = {"message": "msg", "function_call": "fc", "reasoning": "rs"}


def check_responses(body: dict[str, Any]) -> list[str]:
    """Why the API would refuse this body."""
    out = [*_tools(body), *_pairs(body), *_led(body)]
    for number, item in enumerate(body.get("input") or ()):
        out += _item(f"input[{number}]", item)
    if body.get("max_output_tokens", 16) < 16:
        out.append("max_output_tokens: must be at least 16")
    return out or ([] if body.get("input") else ["input: required"])


def check_codex(body: dict[str, Any]) -> list[str]:
    """The same, and what the endpoint behind the sign-in adds."""
    out = check_responses(body)
    if is_blank(body.get("instructions")):
        out.append("instructions are required")
    if body.get("store") is not False or body.get("stream") is not True:
        out.append("store must be false and stream true")
    out += [f"unsupported parameter: {f}" for f in ("max_output_tokens", "temperature") if f in body]
    return out


def _tools(body: dict[str, Any]) -> Iterator[str]:
    tools = body.get("tools") or []
    for number, tool in enumerate(tools):
        yield from check_name(f"tools[{number}]", tool.get("name"))
        yield from check_tool_schema(f"tools[{number}]", tool.get("parameters"))
    yield from check_unique("tools", [tool.get("name") for tool in tools])


def _kind(item: dict[str, Any]) -> str:
    return str(item.get("type", "message"))


def _pairs(body: dict[str, Any]) -> Iterator[str]:
    calls: list[Any] = []
    outputs: list[Any] = []
    for item in body.get("input") or ():
        if _kind(item) == "function_call":
            calls.append(item.get("call_id"))
        elif _kind(item) == "function_call_output":
            outputs.append(item.get("call_id"))
            if item.get("call_id") not in calls:
                yield f"no tool call found for function call output with call_id {item.get('call_id')}"
    yield from (f"no tool output found for function call {c}" for c in calls if c not in outputs)
    yield from check_unique("call_id", calls)
    yield from check_unique("output for call_id", outputs)
    yield from check_unique("item id", [item["id"] for item in body.get("input") or () if "id" in item])


def _led(body: dict[str, Any]) -> Iterator[str]:
    """Reasoning stands before an item of the same answer; item ids stand behind their reasoning."""
    waiting = ""
    reasoned = False
    for item in body.get("input") or ():
        kind, own = _kind(item), item.get("role") == "assistant" or _kind(item) in ("function_call", "reasoning")
        if not own:
            if waiting:
                yield f"item {waiting} of type reasoning was provided without its required following item"
            waiting, reasoned = "", False
        elif kind == "reasoning":
            waiting, reasoned = str(item.get("id", "reasoning")), True
        else:
            waiting = ""
            if "id" in item and not reasoned:
                yield f"item {item['id']} of type {kind} was provided without its required reasoning item"
    if waiting:
        yield f"item {waiting} of type reasoning was provided without its required following item"


def _item(where: str, item: dict[str, Any]) -> Iterator[str]:
    kind = _kind(item)
    if "id" in item:
        prefix = _PREFIX.get(kind, "")
        if not prefix or not str(item["id"]).startswith(prefix) or len(item["id"]) > 64:
            yield f"{where}: invalid id {item['id']!r}, expected one that begins with {prefix!r}"
    if kind == "message":
        yield from _message(where, item)
    elif kind == "function_call":
        yield from check_name(where, item.get("name"))
        yield from check_name(f"{where}.call_id", item.get("call_id"), IDENT)
        yield from check_json_arguments(where, item.get("arguments"))
    elif kind == "function_call_output":
        output = item.get("output")
        yield from check_name(f"{where}.call_id", item.get("call_id"), IDENT)
        yield from _parts(where, output) if isinstance(output, list) else ()
        if not output:
            yield f"{where}: output is required"
    elif kind == "reasoning":
        if not isinstance(item.get("summary"), list) or is_blank(item.get("encrypted_content")):
            yield f"{where}: reasoning needs summary and encrypted_content when nothing is stored"
    else:
        yield f"{where}: unknown type {kind!r}"


def _message(where: str, item: dict[str, Any]) -> Iterator[str]:
    content = item.get("content")
    if item.get("role") == "assistant" and isinstance(content, str):
        if "id" in item or is_blank(content):
            yield f"{where}: the short form of a message has text and no id"
    elif item.get("role") == "assistant":
        if "id" not in item or item.get("status") != "completed":
            yield f"{where}: an output message needs its id and status"
        for part in content or ():
            if part.get("type") != "output_text" or is_blank(part.get("text")):
                yield f"{where}: an assistant message holds output_text"
    elif item.get("role") not in ("user", "system", "developer"):
        yield f"{where}: unknown role {item.get('role')!r}"
    elif isinstance(content, list):
        yield from _parts(where, content)
    if not content:
        yield f"{where}: empty content"


def _parts(where: str, parts: list[dict[str, Any]]) -> Iterator[str]:
    for part in parts:
        if part.get("type") == "input_text":
            if is_blank(part.get("text")):
                yield f"{where}: empty text"
        elif part.get("type") == "input_image":
            found = _URL.fullmatch(str(part.get("image_url")))
            yield from check_base64(where, found[2]) if found else (f"{where}: unsupported image",)
        else:
            yield f"{where}: unknown part {part.get('type')!r}"
