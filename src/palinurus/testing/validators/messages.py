"""APIs whose calls and answers stand side by side. Responses: function_call and its output, reasoning and the item it
led to, item ids. Ollama: roles its templates know, arguments as objects, results after calls. Completions: assistant
tool_calls and the tool messages that follow, ids, names; and what single vendors add.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from palinurus.patterns import compile_late
from palinurus.testing.validators import checks

_IDENT = compile_late(r"[A-Za-z0-9_-]{1,40}")
_NINE = compile_late(r"[A-Za-z0-9]{9}")
_PREFIX: dict[str, str] = {"message": "msg", "function_call": "fc", "reasoning": "rs"}


def check_responses(body: dict[str, Any]) -> list[str]:
    """Why the API would refuse this body."""
    tools = [(tool.get("name"), tool.get("parameters")) for tool in body.get("tools") or ()]
    out = [*checks.check_tools("tools[{}]", tools), *_pairs(body), *_led(body)]
    for number, item in enumerate(body.get("input") or ()):
        out += _item(f"input[{number}]", item)
    if body.get("max_output_tokens", 16) < 16:
        out.append("max_output_tokens: must be at least 16")
    return out or ([] if body.get("input") else ["input: required"])


def check_codex(body: dict[str, Any]) -> list[str]:
    """The same, and what the endpoint behind the sign-in adds."""
    out = check_responses(body)
    if checks.is_blank(body.get("instructions")):
        out.append("instructions are required")
    if body.get("store") is not False or body.get("stream") is not True:
        out.append("store must be false and stream true")
    out += [f"unsupported parameter: {f}" for f in ("max_output_tokens", "temperature") if f in body]
    return out


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
    yield from checks.check_unique("call_id", calls)
    yield from checks.check_unique("output for call_id", outputs)
    yield from checks.check_unique("item id", [item["id"] for item in body.get("input") or () if "id" in item])


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
        yield from checks.check_name(where, item.get("name"))
        yield from checks.check_name(f"{where}.call_id", item.get("call_id"))
        yield from checks.check_json_arguments(where, item.get("arguments"))
    elif kind == "function_call_output":
        output = item.get("output")
        yield from checks.check_name(f"{where}.call_id", item.get("call_id"))
        yield from _parts(where, output) if isinstance(output, list) else ()
        if not output:
            yield f"{where}: output is required"
    elif kind == "reasoning":
        if not isinstance(item.get("summary"), list) or checks.is_blank(item.get("encrypted_content")):
            yield f"{where}: reasoning needs summary and encrypted_content when nothing is stored"
    else:
        yield f"{where}: unknown type {kind!r}"


def _message(where: str, item: dict[str, Any]) -> Iterator[str]:
    content = item.get("content")
    if item.get("role") == "assistant" and isinstance(content, str):
        if "id" in item or checks.is_blank(content):
            yield f"{where}: the short form of a message has text and no id"
    elif item.get("role") == "assistant":
        if "id" not in item or item.get("status") != "completed":
            yield f"{where}: an output message needs its id and status"
        for part in content or ():
            if part.get("type") != "output_text" or checks.is_blank(part.get("text")):
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
            if checks.is_blank(part.get("text")):
                yield f"{where}: empty text"
        elif part.get("type") == "input_image":
            yield from checks.check_data_url(where, part.get("image_url"))
        else:
            yield f"{where}: unknown part {part.get('type')!r}"


def check_ollama(body: dict[str, Any]) -> list[str]:
    """Why the server would refuse this body, or its template make nonsense of it."""
    out = [] if body.get("messages") else ["messages: none"]
    return [*out, *checks.check_tools("tools[{}]", _functions(body)), *_ollama_messages(body.get("messages") or [])]


def _ollama_messages(messages: list[dict[str, Any]]) -> Iterator[str]:
    owed: list[str] = []
    for number, message in enumerate(messages):
        where, role = f"messages[{number}]", message.get("role")
        if not isinstance(message.get("content"), str):
            yield f"{where}: content must be text"
        if role == "tool":
            if not owed or message.get("tool_name") != owed.pop(0):
                yield f"{where}: a result of {message.get('tool_name')!r} that nobody asked for here"
            if checks.is_blank(message.get("content")):
                yield f"{where}: an empty result"
            continue
        if owed:
            yield f"{where}: results of {owed} are missing"
        owed = []
        if role == "system":
            if number:
                yield f"{where}: system must come first"
        elif role == "user":
            if checks.is_blank(message.get("content")) and not message.get("images"):
                yield f"{where}: an empty message"
            for image in message.get("images") or ():
                yield from checks.check_base64(where, image)
        elif role == "assistant":
            calls = message.get("tool_calls") or []
            if checks.is_blank(message.get("content")) and not calls:
                yield f"{where}: an empty answer"
            for call in calls:
                owed.append(str(call["function"].get("name")))
                yield from checks.check_name(where, call["function"].get("name"))
                if not isinstance(call["function"].get("arguments"), dict):
                    yield f"{where}: arguments must be an object"
        else:
            yield f"{where}: unknown role {role!r}"
    if owed:
        yield f"results of {owed} are missing at the end"


def _functions(body: dict[str, Any]) -> list[tuple[Any, Any]]:
    return [(one["function"].get("name"), one["function"].get("parameters")) for one in body.get("tools") or ()]


def check_completions(body: dict[str, Any]) -> list[str]:
    """Why the API would refuse this body."""
    return [*_tools(body), *_messages(body)]


def _tools(body: dict[str, Any]) -> Iterator[str]:
    tools = body.get("tools")
    if tools is not None and not tools:
        yield "tools: [] is too short"
    yield from checks.check_tools("tools[{}]", _functions(body))
    if body.get("tool_choice") is not None and not tools:
        yield "tool_choice: only allowed when tools are specified"


def _messages(body: dict[str, Any]) -> Iterator[str]:
    messages = body.get("messages")
    if not messages:
        yield "messages: [] is too short"
        return
    owed: list[str] = []
    for number, message in enumerate(messages):
        where = f"messages[{number}]"
        role = message.get("role")
        if role == "tool":
            if message.get("tool_call_id") not in owed:
                yield f"{where}: a tool message must follow the tool_calls it answers"
            else:
                owed.remove(message["tool_call_id"])
            if checks.is_blank(message.get("content")):
                yield f"{where}: a tool message needs content"
            continue
        if owed:
            yield f"{where}: tool_calls must be followed by tool messages; missing {owed}"
        owed = [str(call.get("id")) for call in message.get("tool_calls") or ()]
        yield from checks.check_unique(where, owed)
        if role in ("system", "developer"):
            if number:
                yield f"{where}: {role} must be the first message"
        elif role == "user":
            yield from _user(where, message.get("content"))
        elif role == "assistant":
            yield from _assistant(where, message)
        else:
            yield f"{where}: unknown role {role!r}"
    if owed:
        yield f"tool_calls without tool messages: {owed}"


def _user(where: str, content: Any) -> Iterator[str]:
    parts: list[dict[str, Any]] = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
    if not parts:
        yield f"{where}: empty content"
    for part in parts:
        if part.get("type") == "text":
            if checks.is_blank(part.get("text")):
                yield f"{where}: empty text"
        elif part.get("type") == "image_url":
            yield from checks.check_data_url(where, part["image_url"].get("url"))
        else:
            yield f"{where}: unknown part {part.get('type')!r}"


def _assistant(where: str, message: dict[str, Any]) -> Iterator[str]:
    calls = message.get("tool_calls")
    if calls is not None and not calls:
        yield f"{where}: tool_calls: [] is too short"
    if checks.is_blank(message.get("content")) and not calls:
        yield f"{where}: content is required unless tool_calls is given"
    for call in calls or ():
        yield from checks.check_name(f"{where}.id", call.get("id"), _IDENT)
        yield from checks.check_name(where, call["function"].get("name"))
        yield from checks.check_json_arguments(where, call["function"].get("arguments"))
        if call.get("type") != "function":
            yield f"{where}: a call has type function"


def check_mistral(body: dict[str, Any]) -> list[str]:
    """Ids of exactly nine letters and digits; no stream_options; the last message is the user's or a tool's."""
    out: list[str] = []
    for message in body["messages"]:
        idents = [call["id"] for call in message.get("tool_calls") or ()]
        idents += [message["tool_call_id"]] if "tool_call_id" in message else []
        out += [f"tool call id {i!r} must be nine letters or digits" for i in idents if not _NINE.fullmatch(i)]
    if body["messages"] and body["messages"][-1]["role"] not in ("user", "tool"):
        out.append("expected last role user or tool")
    return out + [f"{field}: extra inputs are not permitted" for field in ("stream_options", "store") if field in body]


def check_deepseek(body: dict[str, Any]) -> list[str]:
    """While thinking every earlier answer has reasoning_content; without thinking none has."""
    mode = (body.get("thinking") or {}).get("type")
    said = [m for m in body["messages"] if m["role"] == "assistant"]
    if mode == "enabled" and any("reasoning_content" not in m for m in said):
        return ["the reasoning_content in the thinking mode must be passed back to the API"]
    if mode == "disabled" and any("reasoning_content" in m for m in said):
        return ["reasoning_content is not taken without thinking"]
    return []


def check_moonshot(body: dict[str, Any]) -> list[str]:
    """While thinking a tool may not be forced."""
    on = (body.get("thinking") or {}).get("type") == "enabled"
    forced = body.get("tool_choice", "auto") not in ("auto", "none")
    return ["tool_choice is incompatible with thinking enabled"] if on and forced else []
