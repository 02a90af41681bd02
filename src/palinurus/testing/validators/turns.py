"""APIs of alternating turns, where answers follow the calls at once. generateContent: functionCall and functionResponse
in equal numbers, thought signatures. Converse: toolUse and toolResult, no blank text, reasoning with its signature.
Messages: tool_use and tool_result, thinking and its signatures, cache marks.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator
from typing import Any

from palinurus.patterns import compile_late
from palinurus.testing.validators import checks

_NAME = compile_late(r"[A-Za-z_][A-Za-z0-9_.:-]{0,63}")
_PICTURES = ("image/png", "image/jpeg", "image/webp", "image/heic", "image/heif")
_DATA = ("text", "inlineData", "functionCall", "functionResponse")


def check_gemini(body: dict[str, Any]) -> list[str]:
    """Why the API would refuse this body."""
    return [*_gemini_head(body), *_gemini_turns(body)]


def check_gemini_signatures(body: dict[str, Any]) -> list[str]:
    """What Gemini 3 adds: in the turn that is going on, the first call of each step has a thought signature."""
    contents = body["contents"]
    start = max((n for n, turn in enumerate(contents) if _asked(turn)), default=0)
    out: list[str] = []
    for turn in contents[start:]:
        calls = [part for part in turn["parts"] if "functionCall" in part]
        if calls and checks.is_blank(calls[0].get("thoughtSignature")):
            out.append(f"function call {calls[0]['functionCall'].get('name')} is missing a thought_signature")
    return out


def _asked(turn: dict[str, Any]) -> bool:
    return turn["role"] == "user" and not any("functionResponse" in part for part in turn["parts"])


def _gemini_head(body: dict[str, Any]) -> Iterator[str]:
    specs = [spec for tool in body.get("tools") or () for spec in tool.get("functionDeclarations", ())]
    tools = [(spec.get("name"), spec.get("parametersJsonSchema")) for spec in specs]
    yield from checks.check_tools("function declaration", tools, "function declarations", _NAME)
    config = (body.get("generationConfig") or {}).get("thinkingConfig") or {}
    if "thinkingLevel" in config and "thinkingBudget" in config:
        yield "thinkingConfig: thinking_budget and thinking_level exclude each other"
    for part in (body.get("systemInstruction") or {}).get("parts", ()):
        if checks.is_blank(part.get("text")):
            yield "systemInstruction: empty text"


def _gemini_turns(body: dict[str, Any]) -> Iterator[str]:
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
        yield from checks.check_unique(where, [ident for ident, _ in calls])
    if owed:
        yield "a function call turn must be followed by a function response turn"


def _part(where: str, role: str, part: dict[str, Any]) -> Iterator[str]:
    held = [key for key in _DATA if key in part]
    if len(held) != 1:
        yield f"{where}: a part holds exactly one kind of data, found {held}"
    if "text" in part and checks.is_blank(part["text"]):
        yield f"{where}: empty text parameter"
    if "inlineData" in part:
        if part["inlineData"].get("mimeType") not in _PICTURES:
            yield f"{where}: unsupported MIME type {part['inlineData'].get('mimeType')}"
        yield from checks.check_base64(where, part["inlineData"].get("data"))
    if call := part.get("functionCall"):
        yield from checks.check_name(where, call.get("name"), _NAME)
        if role != "model" or not isinstance(call.get("args"), dict):
            yield f"{where}: a function call is the model's and has args"
    if answer := part.get("functionResponse"):
        yield from checks.check_name(where, answer.get("name"), _NAME)
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


_FORMATS = ("png", "jpeg", "gif", "webp")
_USER = ("text", "image", "toolResult", "cachePoint")
_ASSISTANT = ("text", "toolUse", "reasoningContent")


def _check_turns(
    messages: Any,
    words: tuple[str, str],
    name: Callable[[dict[str, Any]], tuple[str, str]],
    check_block: Callable[[str, str, dict[str, Any]], Iterator[str]],
) -> Iterator[str]:
    """Roles alternate, from the user's to the user's; calls are answered in the next turn, before all else. `words` are
    the kinds of a call and of an answer, `name` gives the kind of a block and the id of its call."""
    call, result = words
    if not messages:
        yield "messages: at least one message is required"
        return
    if messages[-1]["role"] != "user":
        yield "the conversation must end with a user message"
    owed: list[str] = []
    used: list[str] = []
    for number, message in enumerate(messages):
        where, role, content = f"messages.{number}", message["role"], _as_blocks(message["content"])
        if role != ("assistant" if number % 2 else "user"):
            yield f"{where}: roles must alternate, beginning with user"
        if not content:
            yield f"{where}: must have non-empty content"
        named = [name(block) for block in content]
        answered = [ident for kind, ident in named if kind == result]
        if sorted(answered) != sorted(owed):
            yield f"{where}: expected {result} blocks immediately after the {call} ids {owed}, found {answered}"
        if any(kind != result for kind, _ in named[: len(answered)]):
            yield f"{where}: {result} blocks must come first"
        owed = [ident for kind, ident in named if kind == call]
        used += owed
        for block in content:
            yield from check_block(where, role, block)
    if owed:
        yield f"{call} ids {owed} were found without {result} blocks"
    yield from checks.check_unique(f"{call} ids", used)


def _as_blocks(content: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content or []


def check_bedrock(body: dict[str, Any]) -> list[str]:
    """Why the API would refuse this body."""
    return [*_bedrock_head(body), *_bedrock_turns(body), *_bedrock_thinking(body)]


def _bedrock_head(body: dict[str, Any]) -> Iterator[str]:
    tools = (body.get("toolConfig") or {}).get("tools") or []
    specs = [tool["toolSpec"] for tool in tools]
    yield from checks.check_tools(
        "toolSpec", [(spec.get("name"), spec["inputSchema"].get("json")) for spec in specs], "toolSpec"
    )
    if any(checks.is_blank(spec.get("description")) for spec in specs):
        yield "toolSpec: description must not be empty"
    used = any("toolUse" in b or "toolResult" in b for m in body.get("messages") or () for b in m["content"])
    if used and not tools:
        yield "toolConfig must be defined when using toolUse and toolResult content blocks"
    for block in body.get("system") or ():
        if "cachePoint" not in block and checks.is_blank(block.get("text")):
            yield "system: blank text"


def _bedrock_turns(body: dict[str, Any]) -> Iterator[str]:
    def name(block: dict[str, Any]) -> tuple[str, str]:
        kind = next((one for one in ("toolUse", "toolResult") if one in block), "")
        return kind, str(block[kind].get("toolUseId")) if kind else ""

    yield from _check_turns(body.get("messages"), ("toolUse", "toolResult"), name, _bedrock_block)


def _bedrock_block(where: str, role: str, block: dict[str, Any]) -> Iterator[str]:
    if len(block) != 1 or next(iter(block)) not in (_USER if role == "user" else _ASSISTANT):
        yield f"{where}: {sorted(block)} is not a block of {role}"
        return
    ((kind, value),) = block.items()
    if kind == "text" and checks.is_blank(value):
        yield f"{where}: the text field in the ContentBlock object is blank"
    elif kind == "image":
        yield from _bedrock_image(where, value)
    elif kind == "toolUse":
        yield from checks.check_name(where, value.get("name"))
        yield from checks.check_name(f"{where}.toolUseId", value.get("toolUseId"))
        if not isinstance(value.get("input"), dict):
            yield f"{where}: input must be an object"
    elif kind == "toolResult":
        if not value.get("content") or value.get("status") not in ("success", "error"):
            yield f"{where}: a toolResult needs content and a status"
        for inner in value.get("content") or ():
            if "image" in inner:
                yield from _bedrock_image(where, inner["image"])
            elif checks.is_blank(inner.get("text")):
                yield f"{where}: blank text in a toolResult"
    elif kind == "reasoningContent" and "redactedContent" not in value:
        text = value.get("reasoningText") or {}
        if checks.is_blank(text.get("text")) or checks.is_blank(text.get("signature")):
            yield f"{where}: reasoningText needs text and signature"
    elif kind == "reasoningContent":
        yield from checks.check_base64(where, value["redactedContent"])


def _bedrock_image(where: str, image: dict[str, Any]) -> Iterator[str]:
    if image.get("format") not in _FORMATS:
        yield f"{where}: unknown image format {image.get('format')!r}"
    yield from checks.check_base64(where, (image.get("source") or {}).get("bytes"))


def _bedrock_thinking(body: dict[str, Any]) -> Iterator[str]:
    extra = body.get("additionalModelRequestFields") or {}
    if (extra.get("thinking") or {}).get("type") != "enabled":
        return
    if "temperature" in (body.get("inferenceConfig") or {}):
        yield "temperature may only be set to 1 when thinking is enabled"
    last, before = body["messages"][-1], body["messages"][-2:-1]
    if before and any("toolResult" in b for b in last["content"]) and "reasoningContent" not in before[0]["content"][0]:
        yield "the final assistant message must start with a thinking block"


_MEDIA = ("image/jpeg", "image/png", "image/gif", "image/webp")
_THOUGHTS = ("thinking", "redacted_thinking")


def check_anthropic(body: dict[str, Any]) -> list[str]:
    """Why the API would refuse this body."""
    return [*_head(body), *_tools(body), *_turns(body), *_thinking(body), *_marks(body)]


def _head(body: dict[str, Any]) -> Iterator[str]:
    if checks.is_blank(body.get("model")):
        yield "model: required"
    if not isinstance(body.get("max_tokens"), int) or body["max_tokens"] < 1:
        yield "max_tokens: must be at least 1"
    for block in body.get("system") or ():
        if block.get("type") != "text" or checks.is_blank(block.get("text")):
            yield "system: text content blocks must be non-empty"


def _tools(body: dict[str, Any]) -> Iterator[str]:
    tools = body.get("tools") or []
    yield from checks.check_tools("tools.{}", [(tool.get("name"), tool.get("input_schema")) for tool in tools])
    if body.get("tool_choice") is not None and not tools:
        yield "tool_choice: may only be given with tools"
    used = any(block.get("type") in ("tool_use", "tool_result") for block in _blocks(body))
    if used and not tools:
        yield "tools: a history with tool_use or tool_result must define tools"


def _blocks(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for message in body.get("messages", ()):
        yield from message["content"] if isinstance(message["content"], list) else ()


def _turns(body: dict[str, Any]) -> Iterator[str]:
    def name(block: dict[str, Any]) -> tuple[str, str]:
        kind = str(block.get("type"))
        return kind, str(block.get("tool_use_id" if kind == "tool_result" else "id"))

    yield from _check_turns(body.get("messages"), ("tool_use", "tool_result"), name, _block)


def _block(where: str, role: str, block: dict[str, Any]) -> Iterator[str]:
    kind = block.get("type")
    allowed = ("text", "image", "tool_result") if role == "user" else ("text", "tool_use", *_THOUGHTS)
    if kind not in allowed:
        yield f"{where}: {kind} is not allowed for {role}"
    elif kind == "text" and checks.is_blank(block.get("text")):
        yield f"{where}: text content blocks must contain non-whitespace text"
    elif kind == "image":
        yield from _image(where, block)
    elif kind == "tool_use":
        yield from checks.check_name(where, block.get("name"))
        yield from checks.check_name(f"{where}.id", block.get("id"))
        if not isinstance(block.get("input"), dict):
            yield f"{where}: input must be a dictionary"
    elif kind == "tool_result":
        yield from _result(where, block)
    elif kind == "thinking" and (checks.is_blank(block.get("signature")) or not isinstance(block.get("thinking"), str)):
        yield f"{where}: thinking needs its signature"
    elif kind == "redacted_thinking" and checks.is_blank(block.get("data")):
        yield f"{where}: redacted_thinking needs its data"


def _image(where: str, block: dict[str, Any]) -> Iterator[str]:
    source = block.get("source") or {}
    if source.get("media_type") not in _MEDIA:
        yield f"{where}: media type {source.get('media_type')!r} is not supported"
    yield from checks.check_base64(where, source.get("data"))


def _result(where: str, block: dict[str, Any]) -> Iterator[str]:
    content = _as_blocks(block.get("content"))
    if block.get("is_error") and not content:
        yield f"{where}: content cannot be empty if is_error is true"
    for inner in content:
        if inner.get("type") == "image":
            if block.get("is_error"):
                yield f"{where}: all content must be text if is_error is true"
            yield from _image(where, inner)
        elif inner.get("type") != "text" or checks.is_blank(inner.get("text")):
            yield f"{where}: text content blocks must be non-empty"


def _thinking(body: dict[str, Any]) -> Iterator[str]:
    mode = (body.get("thinking") or {}).get("type", "disabled")
    if mode == "disabled":
        return
    if body.get("temperature") not in (None, 1):
        yield "temperature may only be set to 1 when thinking is enabled"
    if (body.get("tool_choice") or {}).get("type", "auto") not in ("auto", "none"):
        yield "thinking may not be enabled when tool_choice forces tool use"
    if mode != "enabled":
        return
    budget = body["thinking"].get("budget_tokens", 0)
    if budget < 1024 or budget >= body.get("max_tokens", 0):
        yield "thinking.budget_tokens must be at least 1024 and less than max_tokens"
    messages = body.get("messages") or []
    last = messages[-1] if messages else {}
    if len(messages) > 1 and any(b.get("type") == "tool_result" for b in last["content"] if isinstance(b, dict)):
        before = messages[-2]["content"]
        if before[0].get("type") not in _THOUGHTS:
            yield "expected thinking, found tool_use: the final assistant message must start with a thinking block"


def _marks(body: dict[str, Any]) -> Iterator[str]:
    blocks = [*(body.get("system") or ()), *(body.get("tools") or ()), *_blocks(body)]
    marked = [block for block in blocks if "cache_control" in block]
    if len(marked) > 4:
        yield f"cache_control: at most 4 blocks may carry it, found {len(marked)}"
    if any(block.get("type") in _THOUGHTS for block in marked):
        yield "cache_control: not allowed on thinking blocks"
