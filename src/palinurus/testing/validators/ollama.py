"""Ollama's chat: roles its templates know, arguments as objects, pictures in user messages, results after calls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from palinurus.testing.validators.shape import check_base64, check_name, check_tool_schema, is_blank


def check_ollama(body: dict[str, Any]) -> list[str]:
    """Why the server would refuse this body, or its template make nonsense of it."""
    out = [] if body.get("messages") else ["messages: none"]
    for number, tool in enumerate(body.get("tools") or ()):
        out += check_name(f"tools[{number}]", tool["function"].get("name"))
        out += check_tool_schema(f"tools[{number}]", tool["function"].get("parameters"))
    return [*out, *_messages(body.get("messages") or [])]


def _messages(messages: list[dict[str, Any]]) -> Iterator[str]:
    owed: list[str] = []
    for number, message in enumerate(messages):
        where, role = f"messages[{number}]", message.get("role")
        if not isinstance(message.get("content"), str):
            yield f"{where}: content must be text"
        if role == "tool":
            if not owed or message.get("tool_name") != owed.pop(0):
                yield f"{where}: a result of {message.get('tool_name')!r} that nobody asked for here"
            if is_blank(message.get("content")):
                yield f"{where}: an empty result"
            continue
        if owed:
            yield f"{where}: results of {owed} are missing"
        owed = []
        if role == "system":
            if number:
                yield f"{where}: system must come first"
        elif role == "user":
            if is_blank(message.get("content")) and not message.get("images"):
                yield f"{where}: an empty message"
            for image in message.get("images") or ():
                yield from check_base64(where, image)
        elif role == "assistant":
            calls = message.get("tool_calls") or []
            if is_blank(message.get("content")) and not calls:
                yield f"{where}: an empty answer"
            for call in calls:
                owed.append(str(call["function"].get("name")))
                yield from check_name(where, call["function"].get("name"))
                if not isinstance(call["function"].get("arguments"), dict):
                    yield f"{where}: arguments must be an object"
        else:
            yield f"{where}: unknown role {role!r}"
    if owed:
        yield f"results of {owed} are missing at the end"
