"""OpenAI's Responses shapes: request bytes -> `OpenAiRequest`, outcome -> response bytes. Pure; nothing is sent here.

A request is put into chat-completions form and read by `parse_completion`, so both mean the same. The ids of a response
and of its items name their session, so `previous_response_id` and `item_reference` go on where that one ended, also
after a restart; the id of a conversation is its session. Reading them again: `stored.py`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from palinurus.config.settings import Settings
from palinurus.core.types.inbound import EarlierMessage
from palinurus.core.types.keys import SessionKey, parse_session_key
from palinurus.core.types.usage import TokenUsage
from palinurus.gateway.http import HttpFault, decode_body, make_bad_request
from palinurus.gateway.openai.completions import OpenAiReply, OpenAiRequest, parse_completion
from palinurus.gateway.openai.messages import OpenAiMessage, read_conversation
from palinurus.gateway.port import ModelFinder
from palinurus.patterns import compile_late, decode_late

SESSION = "x-openclaw-session-key"


class _Part(msgspec.Struct, frozen=True):
    type: str
    text: str = ""
    refusal: str = ""
    image_url: str | None = None


class _Item(msgspec.Struct, frozen=True):
    type: str = "message"
    id: str | None = None
    role: Literal["system", "developer", "user", "assistant"] | None = None
    content: str | list[_Part] | None = None
    call_id: str = ""
    name: str = ""
    arguments: str = ""
    output: str | list[_Part] = ""


class _Tool(msgspec.Struct, frozen=True):
    type: str
    name: str = ""
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class _Reasoning(msgspec.Struct, frozen=True):
    effort: str | None = None
    summary: str | None = None


class _Format(msgspec.Struct, frozen=True):
    type: str = "text"
    name: str = "answer"
    schema: dict[str, Any] | None = None
    description: str | None = None
    strict: bool | None = None


class _Text(msgspec.Struct, frozen=True):
    format: _Format | None = None
    verbosity: str | None = None


class _Conversation(msgspec.Struct, frozen=True):
    id: str


# Taken without effect: they say how a hosted service should work, not what the answer must be.
_IDLE = "metadata store truncation service_tier safety_identifier stream_options"
_IDLE += " prompt_cache_key prompt_cache_options prompt_cache_retention"
_Idle: Any = msgspec.defstruct("_Idle", [(name, Any, None) for name in _IDLE.split()], frozen=True)


class _Body(_Idle, frozen=True, forbid_unknown_fields=True, kw_only=True):  # type: ignore[misc,call-arg]
    input: str | list[_Item]
    model: str = "openclaw"
    instructions: str | None = None
    stream: bool | None = None
    previous_response_id: str | None = None
    conversation: str | _Conversation | None = None
    background: bool | None = None
    user: str | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    reasoning: _Reasoning | None = None
    text: _Text | None = None
    tools: list[_Tool] | None = None
    tool_choice: Any = None
    top_p: float | None = None
    top_logprobs: int | None = None
    max_tool_calls: int | None = None  # refused
    parallel_tool_calls: bool | None = None
    include: list[str] | None = None


_DECODER = decode_late(_Body)
_SAME = "model stream user temperature top_p top_logprobs tool_choice parallel_tool_calls".split()  # in completions


def parse_response_request(
    data: bytes, headers: Mapping[str, str], settings: Settings, catalog: ModelFinder, now: int
) -> OpenAiRequest | HttpFault:
    """The request as an `OpenAiRequest`, or the refusal that says what is wrong with it."""
    body = decode_body(_DECODER, data, strict=True)
    if isinstance(body, HttpFault):
        return body
    if body.max_tool_calls is not None:
        return make_bad_request("max_tool_calls is not supported", "max_tool_calls", code="unsupported_parameter")
    if any("logprobs" in name for name in body.include or ()):
        return make_bad_request("logprobs are not supported", "include", code="unsupported_parameter")
    form = body.text.format if body.text is not None else None
    messages = _messages(body)
    if isinstance(messages, HttpFault):
        return messages
    key = _find_session(body)
    if isinstance(key, HttpFault):
        return key
    if key is not None:
        headers = {**headers, SESSION: str(key)}
    chat: dict[str, Any] = {
        **{name: getattr(body, name) for name in _SAME},
        "messages": messages,
        "max_completion_tokens": body.max_output_tokens,
        "verbosity": body.text.verbosity if body.text is not None else None,
        "response_format": _format(form) if form is not None else None,
        "reasoning_effort": body.reasoning.effort if body.reasoning else None,
        "tools": [_function(tool) for tool in body.tools or ()] or None,
    }
    found = parse_completion(msgspec.json.encode(chat), headers, settings, catalog, now=now)
    if isinstance(found, HttpFault):
        return found
    # the id that the client gets leads back to the message: `stored.py`
    event = f"{EVENT}{hashlib.sha256(found.inbound.event.encode()).hexdigest()[:32]}"
    inbound = msgspec.structs.replace(found.inbound, event=event)
    return msgspec.structs.replace(found, inbound=inbound, background=bool(body.background))


def read_items(items: list[Any]) -> tuple[EarlierMessage, ...] | HttpFault:
    """What a conversation begins with."""
    try:
        given = msgspec.convert(items, list[_Item])
    except msgspec.ValidationError as exc:
        return make_bad_request(str(exc), "items")
    if any(item.role in ("system", "developer") for item in given):
        return make_bad_request("say it as instructions of each response", "items", code="unsupported_content")
    messages = _messages(_Body(input=given))
    if isinstance(messages, HttpFault):
        return messages
    last = {"role": "user", "content": "."}  # what is said now; all the others were said before
    told = read_conversation(msgspec.convert([*messages, last], list[OpenAiMessage]))
    return told if isinstance(told, HttpFault) else tuple(told.context)


def _find_session(body: _Body) -> SessionKey | HttpFault | None:
    """The session that a request goes on with: of the response before, of its conversation, of what it refers to."""
    items = body.input if isinstance(body.input, list) else []
    talk = body.conversation.id if isinstance(body.conversation, _Conversation) else body.conversation
    if body.previous_response_id and talk:
        text = "previous_response_id and conversation: one of them"
        return make_bad_request(text, "conversation")
    asked = [
        ("previous_response_id", body.previous_response_id, "previous_response_not_found"),
        ("conversation", talk, "conversation_not_found"),
        *(("input", item.id or "?", "item_not_found") for item in items if item.type == "item_reference"),
    ]
    keys: list[SessionKey] = []
    for param, ident, code in asked:
        if ident:
            key = find_response_session(ident)
            if key is None:
                return HttpFault(404, f"there is nothing here with the id {ident[:80]!r}", param=param, code=code)
            keys.append(key)
    if len(set(keys)) > 1:
        return make_bad_request("what the input refers to is of several conversations", "input")
    return keys[0] if keys else None


def _format(form: _Format) -> dict[str, Any]:
    """In the words of a completion."""
    named = {"name": form.name, "schema": form.schema}
    return {"type": form.type, "json_schema": named if form.schema is not None else None}


def _function(tool: _Tool) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description or "", "parameters": tool.parameters or {}}
    return {"type": tool.type, "function": function}


def _messages(body: _Body) -> list[dict[str, Any]] | HttpFault:
    """The input as chat messages."""
    made: list[dict[str, Any]] = []
    if body.instructions:
        made.append({"role": "system", "content": body.instructions})
    if isinstance(body.input, str):
        return [*made, {"role": "user", "content": body.input}]
    names: dict[str, str] = {}
    for item in body.input:
        if item.type == "function_call":
            names[item.call_id] = item.name
            call = {"id": item.call_id, "function": {"name": item.name, "arguments": item.arguments}}
            made.append({"role": "assistant", "content": None, "tool_calls": [{"type": "function", **call}]})
        elif item.type == "function_call_output":
            name = names.get(item.call_id, "")
            made.append({"role": "tool", "tool_call_id": item.call_id, "name": name, "content": _plain(item.output)})
        elif item.type == "message" and item.role is not None:
            content = _content(item)
            if isinstance(content, HttpFault):
                return content
            made.append({"role": item.role, "content": content})
        elif item.type not in ("reasoning", "item_reference"):  # what is referred to is in the session
            text = f"input items of type {item.type[:32]!r} are not supported"
            return make_bad_request(text, "input", code="unsupported_content")
    return made


def _content(item: _Item) -> str | list[dict[str, Any]] | HttpFault:
    if item.content is None or isinstance(item.content, str):
        return item.content or ""
    parts: list[dict[str, Any]] = []
    for part in item.content:
        if part.type in ("input_text", "output_text", "text", "refusal"):
            parts.append({"type": "text", "text": part.text or part.refusal})
        elif part.type == "input_image" and part.image_url:
            parts.append({"type": "image_url", "image_url": part.image_url})
        else:
            text = f"content of type {part.type[:32]!r} is not supported"
            return make_bad_request(text, "input", code="unsupported_content")
    return parts


def _plain(output: str | list[_Part]) -> str:
    return output if isinstance(output, str) else "\n".join(part.text for part in output if part.text)


# --- ids ------------------------------------------------------------------------------------------------------


EVENT = "resp:"  # of messages that came as requests for a response
_KINDS = ("resp", "msg", "fc", "conv")
_IDENT = compile_late(r"(?P<kind>[a-z]+)_(?P<coded>[A-Za-z0-9_-]*?)(-(?P<mark>[0-9a-f]{32}))?(_\d+)?")


def _code_session(session: str) -> str:
    return base64.urlsafe_b64encode(session.encode()).decode().rstrip("=")


def make_response_id(session: str, event: str) -> str:
    """The id of the response to a message of this session; `event` identifies the message."""
    return f"resp_{_code_session(session)}-{event.removeprefix(EVENT)}"


def make_conversation_id(session: str) -> str:
    """The id of a conversation."""
    return f"conv_{_code_session(session)}"


def find_response_session(ident: str) -> SessionKey | None:
    """The session that a response, an item of one, or a conversation belongs to; None for ids that are not ours."""
    found = _IDENT.fullmatch(ident) if len(ident) <= 1000 else None
    if found is None or found["kind"] not in _KINDS or (found["mark"] is None) != (found["kind"] == "conv"):
        return None
    try:
        text = base64.urlsafe_b64decode(found["coded"] + "=" * (-len(found["coded"]) % 4)).decode()
    except (binascii.Error, ValueError):
        return None
    return parse_session_key(text)


def find_response_event(ident: str) -> str:
    """What identifies the message that a response answers; "" for other ids."""
    found = _IDENT.fullmatch(ident) if len(ident) <= 1000 else None
    return f"{EVENT}{found['mark']}" if found is not None and found["kind"] == "resp" and found["mark"] else ""


# --- answers --------------------------------------------------------------------------------------------------


def render_response_usage(usage: TokenUsage) -> dict[str, Any]:
    """Usage in this interface's words."""
    prompt = usage.input + usage.cacheRead + usage.cacheWrite
    told = {"input_tokens": prompt, "output_tokens": usage.output, "total_tokens": prompt + usage.output}
    more = {
        "input_tokens_details": {"cached_tokens": usage.cacheRead},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    return {**told, **more}


def make_message_item(response: str, text: str, status: str = "completed") -> dict[str, Any]:
    """The output item of what was said."""
    content = [make_text_part(text)] if status == "completed" else []
    made = {"type": "message", "id": f"msg_{response[5:]}", "role": "assistant", "content": content}
    return {**made, "phase": "final_answer", "status": status}


def make_text_part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def make_call_items(response: str, reply: OpenAiReply) -> list[dict[str, Any]]:
    """The output items of calls to the client's own tools."""
    told = [
        (f"fc_{response[5:]}_{at}", call, msgspec.json.encode(call.arguments)) for at, call in enumerate(reply.calls)
    ]
    done = {"type": "function_call", "status": "completed"}
    return [
        {**done, "id": ident, "call_id": call.id, "name": call.name, "arguments": arguments.decode()}
        for ident, call, arguments in told
    ]


_UNTOLD = ("error", "incomplete_details", "instructions", "temperature", "top_p", "usage")


def make_response(response: str, created: int, model: str, status: str, **more: Any) -> dict[str, Any]:
    """The response object."""
    made = {"id": response, "object": "response", "created_at": created, "status": status, "model": model}
    usual = {"output": [], "metadata": {}, "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    return {**made, **usual, **dict.fromkeys(_UNTOLD), **more}


def make_settled_response(response: str, created: int, model: str, reply: OpenAiReply) -> dict[str, Any]:
    """The response object of a settled message."""
    said = [make_message_item(response, reply.text)] if reply.text or not reply.calls else []
    cut = reply.finish == "length"
    why = {"reason": "max_output_tokens"} if cut else None
    told = {"output": [*said, *make_call_items(response, reply)], "usage": render_response_usage(reply.usage)}
    status = "incomplete" if cut else "completed"
    return make_response(response, created, model, status, incomplete_details=why, **told)


def render_response(response: str, created: int, model: str, reply: OpenAiReply) -> bytes:
    """The JSON of a whole response."""
    return msgspec.json.encode(make_settled_response(response, created, model, reply))
