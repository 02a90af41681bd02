"""generateContent: turns, functionCall and functionResponse in equal numbers, thought signatures."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Any

from palinurus.testing.validators.shape import check_base64, check_name, check_tool_schema, check_unique, is_blank

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,63}")
_MEDIA = ("image/png", "image/jpeg", "image/webp", "image/heic", "image/heif")
_DATA = ("text", "inlineData", "functionCall", "functionResponse")


def check_gemini(body: dict[str, Any]) -> list[str]:
    """Why the API would refuse this body."""
    return [*_head(body), *_turns(body)]


def check_gemini_signatures(body: dict[str, Any]) -> list[str]:
    """What Gemini 3 adds: in the turn that is going on, the first call of each step has a thought signature."""
    contents = body["contents"]
    start = max((n for n, turn in enumerate(contents) if _asked(turn)), default=0)
    out: list[str] = []
    for turn in contents[start:]:
        calls = [part for part in turn["parts"] if "functionCall" in part]
        if calls and is_blank(calls[0].get("thoughtSignature")):
            out.append(f"function call {calls[0]['functionCall'].get('name')} is missing a thought_signature")
    return out


def _asked(turn: dict[str, Any]) -> bool:
    return turn["role"] == "user" and not any("functionResponse" in part for part in turn["parts"])


def _head(body: dict[str, Any]) -> Iterator[str]:
    specs = [spec for tool in body.get("tools") or () for spec in tool.get("functionDeclarations", ())]
    for spec in specs:
        yield from check_name("function declaration", spec.get("name"), _NAME)
        yield from check_tool_schema("function declaration", spec.get("parametersJsonSchema"))
    yield from check_unique("function declarations", [spec.get("name") for spec in specs])
    config = (body.get("generationConfig") or {}).get("thinkingConfig") or {}
    if "thinkingLevel" in config and "thinkingBudget" in config:
        yield "thinkingConfig: thinking_budget and thinking_level exclude each other"
    for part in (body.get("systemInstruction") or {}).get("parts", ()):
        if is_blank(part.get("text")):
            yield "systemInstruction: empty text"


def _turns(body: dict[str, Any]) -> Iterator[str]:
    contents = body.get("contents")
    if not contents:
        yield "contents is not specified"
        return
    if contents[-1]["role"] != "user":
        yield "the last turn must be the user's"
    owed: list[tuple[Any, Any]] = []
    for number, turn in enumerate(contents):
        where = f"contents[{number}]"
        if turn.get("role") != ("model" if number % 2 else "user"):
            yield f"{where}: user and model must alternate, beginning with user"
        if not turn.get("parts"):
            yield f"{where}: must include at least one parts field"
        calls, answers = [], []
        for part in turn.get("parts") or ():
            yield from _part(where, turn.get("role", ""), part)
            if call := part.get("functionCall"):
                calls.append((call.get("id"), call.get("name")))
            if answer := part.get("functionResponse"):
                answers.append((answer.get("id"), answer.get("name")))
        if len(answers) != len(owed):
            yield f"{where}: the number of function response parts must equal that of the function call parts"
        elif sorted(map(str, answers)) != sorted(map(str, owed)):
            yield f"{where}: function responses {answers} do not answer {owed}"
        owed = calls
        yield from check_unique(where, [ident for ident, _ in calls])
    if owed:
        yield "a function call turn must be followed by a function response turn"


def _part(where: str, role: str, part: dict[str, Any]) -> Iterator[str]:
    held = [key for key in _DATA if key in part]
    if len(held) != 1:
        yield f"{where}: a part holds exactly one kind of data, found {held}"
    if "text" in part and is_blank(part["text"]):
        yield f"{where}: empty text parameter"
    if "inlineData" in part:
        if part["inlineData"].get("mimeType") not in _MEDIA:
            yield f"{where}: unsupported MIME type {part['inlineData'].get('mimeType')}"
        yield from check_base64(where, part["inlineData"].get("data"))
    if call := part.get("functionCall"):
        yield from check_name(where, call.get("name"), _NAME)
        if role != "model" or not isinstance(call.get("args"), dict):
            yield f"{where}: a function call is the model's and has args"
    if answer := part.get("functionResponse"):
        yield from check_name(where, answer.get("name"), _NAME)
        if role != "user" or not isinstance(answer.get("response"), dict):
            yield f"{where}: a function response is the user's and has a response object"
    if "thoughtSignature" in part:
        yield from _signature(where, part["thoughtSignature"])


def _signature(where: str, text: Any) -> Iterator[str]:
    """A bytes field: either alphabet of base64."""
    try:
        if not isinstance(text, str) or not base64.b64decode(text.translate(str.maketrans("-_", "+/")), validate=True):
            yield f"{where}: empty thought_signature"
    except (binascii.Error, ValueError):
        yield f"{where}: invalid value at thought_signature (TYPE_BYTES)"
