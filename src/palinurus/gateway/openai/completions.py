"""OpenAI's chat-completions shapes: request bytes -> `OpenAiRequest`, outcome -> response bytes. Pure."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

import msgspec

from palinurus.agent.settle import extract_answer
from palinurus.config.settings import AgentSettings, Settings
from palinurus.core.jsonschema import list_unsupported
from palinurus.core.types.events import AgentEnd
from palinurus.core.types.inbound import AnswerForm, ClientTool, Inbound, Sender, Target, TurnBounds, TurnOptions
from palinurus.core.types.keys import SessionKey, escape_key_part, parse_agent_id, parse_model_ref, parse_session_key
from palinurus.core.types.messages import AssistantMessage, ToolCall
from palinurus.core.types.model import ModelFailure
from palinurus.core.types.usage import TokenUsage
from palinurus.gateway.http import HttpFault, decode_body, make_bad_request
from palinurus.gateway.openai.messages import OpenAiConversation, OpenAiMessage, read_conversation
from palinurus.gateway.port import ModelFinder
from palinurus.patterns import compile_late, decode_late
from palinurus.store.port import InboxRow

OURS = ("openclaw", "palinurus", "agent")  # first word of a model name that means an agent, not a model
MESSAGES = 5000
TOOLS = 512  # functions of the client; more are no request, and would hold everybody for seconds
USER = 128  # characters
KEY = 255
GAP = "\n\n"  # between the texts of two messages of one run

_NAME = compile_late(r"[A-Za-z0-9_-]{1,64}")
STOPS = 4
# What is not served, with the value that asks for nothing; _NOTHING does as well.
_UNSERVED: dict[str, Any] = {
    "n": 1, "logprobs": False, "top_logprobs": 0, "logit_bias": {}, "presence_penalty": 0, "frequency_penalty": 0,
    "modalities": ["text"], "audio": None, "prediction": None, "web_search_options": None, "function_call": "none",
    "tool_choice": "auto", "verbosity": "medium", "moderation": None, "top_k": None, "min_p": None,
    "repetition_penalty": 1,
}  # fmt: skip
_NOTHING: tuple[Any, ...] = (None, [], {})
_FINISH = {"length": "length", "max_turns": "length"}  # why a run ended -> OpenAI's word; the rest is "stop"


class _Tool(msgspec.Struct, frozen=True):
    type: str = ""
    function: ClientTool | None = None


class _Options(msgspec.Struct, frozen=True):
    include_usage: bool = False


class ResponseFormat(msgspec.Struct, frozen=True):
    """`response_format` of a completion; `text.format` of a response has the second form's fields beside its type."""

    type: str = "text"
    json_schema: dict[str, Any] | None = None


# Refused unless they say what is the case anyway.
_Refused: Any = msgspec.defstruct("_Refused", [(name, Any, None) for name in _UNSERVED], frozen=True)


class _Body(_Refused, frozen=True, kw_only=True):  # type: ignore[misc,call-arg]
    messages: list[OpenAiMessage]
    model: str = "openclaw"
    stream: bool | None = None
    stream_options: _Options | None = None
    user: str | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    temperature: float | None = None
    reasoning_effort: str | None = None
    top_p: float | None = None
    stop: str | list[str] | None = None
    seed: int | None = None
    response_format: ResponseFormat | None = None
    tools: list[_Tool] | None = None
    functions: list[Any] | None = None
    parallel_tool_calls: bool | None = None


class OpenAiRequest(msgspec.Struct, frozen=True):
    """A request understood."""

    inbound: Inbound
    model: str  # as the client wrote it: echoed
    stream: bool
    usage: bool  # a last chunk with the usage is wanted
    events: bool  # run events are wanted too
    keyed: bool  # the client sent an idempotency key
    background: bool = False  # answered at once; the client comes back for the response
    single: bool = False  # the client wants one call of its tools at a time
    attached: tuple[Any, ...] = ()  # files of the terminal, as the page sends them: `gateway/attachments.py`


class OpenAiReply(msgspec.Struct, frozen=True):
    """What a settled message is answered with."""

    text: str = ""
    finish: str = "stop"  # OpenAI's finish_reason
    usage: TokenUsage = TokenUsage()
    calls: tuple[ToolCall, ...] = ()  # of the client's own tools


class _TerminalBody(msgspec.Struct, frozen=True):
    attachments: tuple[Any, ...] = ()
    mode: str = ""
    system: str = ""
    bounds: TurnBounds = TurnBounds()
    folder: str = ""


_DECODER = decode_late(_Body)
_TERMINAL = decode_late(_TerminalBody)
NOBODY = Sender("nobody")  # a request says nothing of who sends it: the credential does (`handle_completion`)


def parse_completion(
    data: bytes, headers: Mapping[str, str], settings: Settings, catalog: ModelFinder, now: int
) -> OpenAiRequest | HttpFault:
    """The request as an `OpenAiRequest`, or the refusal that says what is wrong with it."""
    body = decode_body(_DECODER, data)
    if isinstance(body, HttpFault):
        return body
    fault = _unsupported(body) or _refuse_form(body.response_format)
    if fault:
        return fault
    where = _where(body, headers, settings)
    if isinstance(where, HttpFault):
        return where
    key, stateful = where
    model = _override(body, headers, settings.agents[key.agent], catalog)
    if isinstance(model, HttpFault):
        return model
    told = read_conversation(body.messages)
    if isinstance(told, HttpFault):
        return told
    options = _options(body, told, model, stateful)
    idempotency = headers.get("Idempotency-Key", "")
    if len(idempotency) > KEY:
        return make_bad_request(f"Idempotency-Key is longer than {KEY} characters", code="bad_idempotency_key")
    event = f"key:{idempotency}" if idempotency else f"once:{uuid.uuid4()}"
    place: Any = {"session": str(key), "agent": key.agent, "push": False}
    inbound = Inbound(Target("http"), NOBODY, event, told.text, at=now, images=told.images, options=options, **place)
    usage = body.stream_options is not None and body.stream_options.include_usage
    return OpenAiRequest(
        *(inbound, body.model, bool(body.stream), usage),
        events=False,
        keyed=bool(idempotency),
        single=body.parallel_tool_calls is False,
    )


def parse_terminal_turn(
    data: bytes, headers: Mapping[str, str], settings: Settings, catalog: ModelFinder, now: int
) -> OpenAiRequest | HttpFault:
    """The same from the owner's own terminal, where a person types: commands act, run events are shown."""
    found = parse_completion(data, headers, settings, catalog, now=now)
    if isinstance(found, HttpFault):
        return found
    more = decode_body(_TERMINAL, data)
    if isinstance(more, HttpFault):
        return more
    options = found.inbound.options
    told: Any = {"system": more.system or options.system, "permission_mode": more.mode, "bounds": more.bounds}
    options = msgspec.structs.replace(options, strict=bool(options.thinking), folder=more.folder, **told)
    inbound = msgspec.structs.replace(found.inbound, target=Target("terminal"), options=options)
    return msgspec.structs.replace(found, inbound=inbound, events=True, attached=more.attachments)


def _unsupported(body: _Body) -> HttpFault | None:
    """Things that would be silently wrong if they were ignored."""
    if body.functions:
        return make_bad_request("functions is the old form; use tools", "functions", code="unsupported_parameter")
    if len(body.tools or ()) > TOOLS:
        return make_bad_request(f"more than {TOOLS} tools", "tools")
    for tool in body.tools or ():
        if tool.type != "function" or tool.function is None or not _NAME.fullmatch(tool.function.name):
            text = "only function tools with a plain name are supported"
            return make_bad_request(text, "tools", code="unsupported_parameter")
    for name in _UNSERVED:
        value, usual = getattr(body, name), _UNSERVED[name]
        if value is not None and (usual is None or value not in _NOTHING) and value != usual:
            return make_bad_request(f"{name} is not supported", name, code="unsupported_parameter")
    stops = [body.stop] if isinstance(body.stop, str) else body.stop or []
    tokens = body.max_completion_tokens if body.max_completion_tokens is not None else body.max_tokens
    fine = (
        (
            "stop",
            f"up to {STOPS} texts of 1 to 200 characters",
            len(stops) <= STOPS and all(0 < len(text) <= 200 for text in stops),
        ),
        ("top_p", "must be above 0 and at most 1", body.top_p is None or 0 < body.top_p <= 1),
        ("max_tokens", "must be a positive number of tokens", tokens is None or 0 < tokens <= 10_000_000),
        ("temperature", "must be between 0 and 2", body.temperature is None or 0 <= body.temperature <= 2),
        ("messages", f"1 to {MESSAGES} of them are needed", 0 < len(body.messages) <= MESSAGES),
    )
    return next((make_bad_request(f"{name}: {words}", name) for name, words, holds in fine if not holds), None)


def _refuse_form(asked: ResponseFormat | None) -> HttpFault | None:
    """A form that cannot be promised is refused, never ignored."""
    if asked is None or asked.type in ("text", "json_object"):
        return None
    param = "response_format"
    if asked.type != "json_schema" or asked.json_schema is None:
        text = f"{param}: type is one of text, json_object and json_schema, which needs json_schema"
        return make_bad_request(text, param, "unsupported_parameter" if asked.json_schema is None else "invalid_value")
    wrong = list_unsupported(asked.json_schema.get("schema"))
    return make_bad_request("; ".join(wrong), f"{param}.json_schema", code="unsupported_schema") if wrong else None


def _read_form(asked: ResponseFormat | None) -> AnswerForm | None:
    if asked is None or asked.type == "text":
        return None
    given = asked.json_schema or {}
    return AnswerForm(given.get("schema"), str(given.get("name") or "answer")[:64])


def _where(body: _Body, headers: Mapping[str, str], settings: Settings) -> tuple[SessionKey, bool] | HttpFault:
    """The session, and whether it remembers (then only the last message counts)."""
    agent = _agent(body.model, headers.get("x-openclaw-agent-id", ""), settings)
    if isinstance(agent, HttpFault):
        return agent
    typed = headers.get("x-openclaw-session-key", "")
    if typed:
        key = parse_session_key(typed, agent)
        if key is None:
            text = "x-openclaw-session-key is not a session key (agent:<id>:<name>)"
            return make_bad_request(text, code="bad_session_key")
        return _known(key.agent, settings) or (key, True)
    if body.user:
        if len(body.user) > USER:
            return make_bad_request(f"user is longer than {USER} characters", "user")
        return SessionKey(agent, f"openai:{escape_key_part(body.user)}"), True
    return SessionKey(agent, f"openai:{uuid.uuid4()}"), False


def _agent(model: str, header: str, settings: Settings) -> str | HttpFault:
    ref = parse_model_ref(model)
    name = ref.model if ref and ref.provider in OURS else header
    if name in ("", "default"):
        return settings.default_agent
    agent = parse_agent_id(name)
    return _known(agent or name, settings) or agent or settings.default_agent


def _known(agent: str, settings: Settings) -> HttpFault | None:
    if agent in settings.agents:
        return None
    known = ", ".join(sorted(settings.agents)[:10])
    return HttpFault(404, f"there is no agent {agent[:64]!r}; known: {known}", param="model", code="model_not_found")


def _override(body: _Body, headers: Mapping[str, str], agent: AgentSettings, catalog: ModelFinder) -> str | HttpFault:
    """The model for this one turn, or "" for the agent's own."""
    ref = parse_model_ref(body.model)
    wanted = headers.get("x-openclaw-model", "")
    if ref is None and body.model.strip().lower() not in OURS:
        text = f"model {body.model[:64]!r} is not served; use openclaw, openclaw/<agent> or provider/model"
        return make_bad_request(text, "model", code="model_not_found")
    if not wanted and ref and ref.provider not in OURS:
        wanted = body.model
    if not wanted:
        return ""
    found = catalog.find(wanted, agent)
    if isinstance(found, ModelFailure):
        return HttpFault(404, found.message, param="model", code="model_not_found")
    return str(found.ref)


def _options(body: _Body, told: OpenAiConversation, model: str, stateful: bool) -> TurnOptions:
    return TurnOptions(
        model,
        body.reasoning_effort or "",
        max_tokens=body.max_completion_tokens or body.max_tokens,
        temperature=body.temperature,
        top_p=body.top_p,
        stop=(body.stop,) if isinstance(body.stop, str) else tuple(body.stop or ()),
        seed=body.seed,
        answer=_read_form(body.response_format),
        context=() if stateful else tuple(told.context),
        results=told.results,
        system=told.system,
        client_tools=tuple(tool.function for tool in body.tools or () if tool.function is not None),
    )


# --- answers --------------------------------------------------------------------------------------------------


def make_reply(ask: OpenAiRequest, end: AgentEnd | None, row: InboxRow, usage: TokenUsage) -> OpenAiReply:
    """The answer to a settled message. When the agent stopped at a tool of the client's, the client is to call it."""
    finish = _FINISH.get(end.end, "stop") if end else "stop"
    calls = _waiting(ask, end)
    text = extract_answer(end, row, ask.inbound.options.answer)
    return OpenAiReply(text, "tool_calls" if calls else finish, usage, calls)


def _waiting(ask: OpenAiRequest, end: AgentEnd | None) -> tuple[ToolCall, ...]:
    names = {tool.name for tool in ask.inbound.options.client_tools}
    answers = [m for m in end.messages if isinstance(m, AssistantMessage)] if end and names else []
    calls = tuple(call for said in answers for call in said.calls if call.name in names)
    return calls[:1] if ask.single else calls  # the others have no result, and are asked for anew


def render_tool_calls(reply: OpenAiReply) -> list[dict[str, Any]]:
    """The calls of a reply in OpenAI's words."""
    named = [{"name": call.name, "arguments": msgspec.json.encode(call.arguments).decode()} for call in reply.calls]
    return [{"id": call.id, "type": "function", "function": one} for call, one in zip(reply.calls, named, strict=True)]


def render_completion(ident: str, created: int, model: str, reply: OpenAiReply) -> bytes:
    """The JSON of a whole completion."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.text, "refusal": None}
    if reply.calls:
        message |= {"content": reply.text or None, "tool_calls": render_tool_calls(reply)}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reply.finish}
    made = {"id": ident, "object": "chat.completion", "created": created, "model": model, "choices": [choice]}
    return msgspec.json.encode({**made, "usage": render_usage(reply.usage)})


def render_usage(usage: TokenUsage) -> dict[str, Any]:
    """Usage in OpenAI's words: cached tokens are part of the prompt."""
    prompt = usage.input + usage.cacheRead + usage.cacheWrite
    told = {"prompt_tokens": prompt, "completion_tokens": usage.output, "total_tokens": prompt + usage.output}
    return {**told, "prompt_tokens_details": {"cached_tokens": usage.cacheRead}}
