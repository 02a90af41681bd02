"""OpenAI's chat-completions shapes: request bytes -> `Ask`, outcome -> response bytes. Pure; nothing is sent here."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import msgspec

from palinurus.config.settings import AgentSettings, Settings
from palinurus.core.stream.answer import spoken
from palinurus.core.types.events import AgentEnd
from palinurus.core.types.inbound import Inbound, Sender, Target
from palinurus.core.types.keys import SessionKey, agent_id, model_ref, part, session_key
from palinurus.core.types.messages import Assistant, Image
from palinurus.core.types.model import Failure
from palinurus.core.types.usage import Usage
from palinurus.gateway.fault import Fault, bad
from palinurus.gateway.port import Catalog
from palinurus.store.port import ItemRow

OURS = ("openclaw", "palinurus", "agent")  # first word of a model name that means an agent, not a model
MESSAGES = 5000
IMAGES = 20
USER = 128  # characters
KEY = 255
GAP = "\n\n"  # between the texts of two messages of one run

_FINISH = {"length": "length", "max_turns": "length"}  # why a run ended -> OpenAI's word; the rest is "stop"


class _Url(msgspec.Struct, frozen=True):
    url: str


class _Part(msgspec.Struct, frozen=True):
    type: str
    text: str = ""
    image_url: _Url | str | None = None


class _Message(msgspec.Struct, frozen=True):
    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[_Part] | None = None
    name: str | None = None


class _Options(msgspec.Struct, frozen=True):
    include_usage: bool = False


class _Body(msgspec.Struct, frozen=True):
    messages: list[_Message]
    model: str = "openclaw"
    stream: bool | None = None
    stream_options: _Options | None = None
    user: str | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    temperature: float | None = None
    reasoning_effort: str | None = None
    n: int | None = None
    tools: list[Any] | None = None
    functions: list[Any] | None = None


class Ask(NamedTuple):
    """A request understood."""

    inbound: Inbound
    model: str  # as the client wrote it: echoed
    stream: bool
    usage: bool  # a last chunk with the usage is wanted
    events: bool  # run events are wanted too
    keyed: bool  # the client sent an idempotency key


class _Talk(NamedTuple):
    text: str
    images: tuple[Image, ...]
    system: str
    context: list[dict[str, str]]


_DECODER = msgspec.json.Decoder(_Body)


def parse(data: bytes, headers: Mapping[str, str], settings: Settings, catalog: Catalog, now: int) -> Ask | Fault:
    """The request as an `Ask`, or the refusal that says what is wrong with it."""
    body = _decode(data)
    if isinstance(body, Fault):
        return body
    fault = _unsupported(body)
    if fault:
        return fault
    where = _where(body, headers, settings)
    if isinstance(where, Fault):
        return where
    key, stateful = where
    model = _override(body, headers, settings.agents[key.agent], catalog)
    if isinstance(model, Fault):
        return model
    talk = _talk(body.messages)
    if isinstance(talk, Fault):
        return talk
    options = _options(body, talk, model, stateful)
    idempotency = headers.get("Idempotency-Key", "")
    if len(idempotency) > KEY:
        return bad(f"Idempotency-Key is longer than {KEY} characters", code="bad_idempotency_key")
    events = headers.get("x-palinurus-events", "") == "1"  # our own terminal: a person types there
    inbound = Inbound(
        Target("terminal" if events else "http"),
        Sender("operator", owner=True),
        event=f"key:{idempotency}" if idempotency else f"once:{uuid.uuid4()}",
        text=talk.text,
        at=now,
        images=talk.images,
        session=str(key),
        agent=key.agent,
        options=options,
        push=False,
    )
    usage = body.stream_options is not None and body.stream_options.include_usage
    return Ask(inbound, body.model, bool(body.stream), usage, events, bool(idempotency))


def _decode(data: bytes) -> _Body | Fault:
    try:
        return _DECODER.decode(data)
    except msgspec.ValidationError as exc:
        path = str(exc).partition(" - at `$")[2]
        return bad(str(exc), param=path.strip("`.") or None, code="invalid_value")
    except (msgspec.DecodeError, UnicodeError) as exc:
        return bad(f"the body is not valid JSON: {exc}", code="invalid_json")
    except RecursionError:
        return bad("the body is nested too deeply", code="invalid_json")


def _unsupported(body: _Body) -> Fault | None:
    """Things that would be silently wrong if they were ignored."""
    if body.tools or body.functions:
        return bad(
            "client-side tools are not supported here; the agent has its own", "tools", code="unsupported_parameter"
        )
    if body.n not in (None, 1):
        return bad("only n=1 is supported", "n", code="unsupported_parameter")
    tokens = body.max_completion_tokens if body.max_completion_tokens is not None else body.max_tokens
    if tokens is not None and not 0 < tokens <= 10_000_000:
        return bad("must be a positive number of tokens", "max_tokens", code="invalid_value")
    if body.temperature is not None and not 0 <= body.temperature <= 2:
        return bad("must be between 0 and 2", "temperature", code="invalid_value")
    if not body.messages:
        return bad("at least one message is needed", "messages", code="invalid_value")
    if len(body.messages) > MESSAGES:
        return bad(f"more than {MESSAGES} messages", "messages", code="invalid_value")
    return None


def _where(body: _Body, headers: Mapping[str, str], settings: Settings) -> tuple[SessionKey, bool] | Fault:
    """The session, and whether it remembers (then only the last message counts)."""
    agent = _agent(body.model, headers.get("x-openclaw-agent-id", ""), settings)
    if isinstance(agent, Fault):
        return agent
    typed = headers.get("x-openclaw-session-key", "")
    if typed:
        key = session_key(typed, agent)
        if key is None:
            return bad("x-openclaw-session-key is not a session key (agent:<id>:<name>)", code="bad_session_key")
        return _known(key.agent, settings) or (key, True)
    if body.user:
        if len(body.user) > USER:
            return bad(f"user is longer than {USER} characters", "user", code="invalid_value")
        return SessionKey(agent, f"openai:{part(body.user)}"), True
    return SessionKey(agent, f"openai:{uuid.uuid4()}"), False


def _agent(model: str, header: str, settings: Settings) -> str | Fault:
    ref = model_ref(model)
    name = ref.model if ref and ref.provider in OURS else header
    if name in ("", "default"):
        return settings.default_agent
    agent = agent_id(name)
    return _known(agent or name, settings) or agent or settings.default_agent


def _known(agent: str, settings: Settings) -> Fault | None:
    if agent in settings.agents:
        return None
    known = ", ".join(sorted(settings.agents)[:10])
    return Fault(404, f"there is no agent {agent[:64]!r}; known: {known}", param="model", code="model_not_found")


def _override(body: _Body, headers: Mapping[str, str], agent: AgentSettings, catalog: Catalog) -> str | Fault:
    """The model for this one turn, or "" for the agent's own."""
    ref = model_ref(body.model)
    wanted = headers.get("x-openclaw-model", "")
    if ref is None and body.model.strip().lower() not in OURS:
        return bad(
            f"model {body.model[:64]!r} is not served; use openclaw, openclaw/<agent> or provider/model",
            "model",
            code="model_not_found",
        )
    if not wanted and ref and ref.provider not in OURS:
        wanted = body.model
    if not wanted:
        return ""
    found = catalog.find(wanted, agent)
    if isinstance(found, Failure):
        return Fault(404, found.message, param="model", code="model_not_found")
    return str(found.ref)


def _talk(messages: list[_Message]) -> _Talk | Fault:
    system: list[str] = []
    context: list[dict[str, str]] = []
    spoken = [m for m in messages if m.role not in ("system", "developer")]
    for message in messages:
        if message.role in ("system", "developer"):
            text = _text(message, "messages")
            if isinstance(text, Fault):
                return text
            system.append(text)
    if not spoken or spoken[-1].role != "user":
        return bad("the last message must come from the user", "messages", code="invalid_value")
    for message in spoken[:-1]:
        text = _text(message, "messages")
        if isinstance(text, Fault):
            return text
        if text:
            context.append(_told(message, text))
    last = spoken[-1]
    text = _text(last, "messages", images=True)
    images = _images(last)
    if isinstance(text, Fault):
        return text
    if isinstance(images, Fault):
        return images
    if not text.strip() and not images:
        return bad("the user's message is empty", "messages", code="invalid_value")
    return _Talk(text, images, "\n\n".join(s for s in system if s), context)


def _told(message: _Message, text: str) -> dict[str, str]:
    """An earlier message as context. Results of the client's own tools are told as the user's words."""
    if message.role in ("tool", "function"):
        return {"role": "user", "content": f"[result of {message.name or 'a tool'}]\n{text}"}
    return {"role": message.role, "content": text}


def _text(message: _Message, param: str, images: bool = False) -> str | Fault:
    content = message.content
    if content is None or isinstance(content, str):
        return content or ""
    pieces: list[str] = []
    for piece in content:
        if piece.type in ("text", "input_text", "refusal"):
            pieces.append(piece.text)
        elif piece.type != "image_url":
            return bad(f"content of type {piece.type[:32]!r} is not supported", param, code="unsupported_content")
        elif not images:
            pieces.append("[image]")  # an earlier picture is mentioned, not sent again
    return "\n".join(p for p in pieces if p)


def _images(message: _Message) -> tuple[Image, ...] | Fault:
    if message.content is None or isinstance(message.content, str):
        return ()
    images: list[Image] = []
    for piece in message.content:
        if piece.type != "image_url":
            continue
        url = piece.image_url.url if isinstance(piece.image_url, _Url) else piece.image_url or ""
        head, comma, data = url.partition(",")
        mime = head.removeprefix("data:").removesuffix(";base64").strip().lower()
        if not (comma and data and head.startswith("data:image/") and head.endswith(";base64")):
            return bad("images must be data:image/…;base64 URLs; nothing is fetched", "messages", code="bad_image")
        images.append(Image(data, mime))
    if len(images) > IMAGES:
        return bad(f"more than {IMAGES} images", "messages", code="bad_image")
    return tuple(images)


def _options(body: _Body, talk: _Talk, model: str, stateful: bool) -> dict[str, Any]:
    options: dict[str, Any] = {
        "model": model,
        "system": talk.system,
        "context": [] if stateful else talk.context,
        "maxTokens": body.max_completion_tokens or body.max_tokens,
        "temperature": body.temperature,
        "thinking": body.reasoning_effort,
    }
    return {k: v for k, v in options.items() if v not in (None, "", [])}


# --- answers --------------------------------------------------------------------------------------------------


def said(end: AgentEnd | None, row: ItemRow) -> str:
    """What the agent said in this turn, the same words a stream carries."""
    if row.outcome == "silent":
        return ""
    if end is None:
        return row.note
    return spoken([m for m in end.messages if isinstance(m, Assistant)]) or row.note


def finish(end: AgentEnd | None) -> str:
    """OpenAI's finish_reason."""
    return _FINISH.get(end.end, "stop") if end else "stop"


def answer(ident: str, created: int, model: str, text: str, finish: str, usage: Usage) -> bytes:
    """The JSON of a whole completion."""
    return msgspec.json.encode(
        {
            "id": ident,
            "object": "chat.completion",
            "created": created,
            "model": model,
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": text, "refusal": None},
                    "logprobs": None,
                    "finish_reason": finish,
                }
            ],
            "usage": counted(usage),
        }
    )


def counted(usage: Usage) -> dict[str, Any]:
    """Usage in OpenAI's words: cached tokens are part of the prompt."""
    prompt = usage.input + usage.cacheRead + usage.cacheWrite
    return {
        "prompt_tokens": prompt,
        "completion_tokens": usage.output,
        "total_tokens": prompt + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cacheRead},
    }


def models(settings: Settings) -> list[dict[str, Any]]:
    """The rows of /v1/models: agents, since a model name here names an agent."""
    names = ["palinurus", "openclaw", "openclaw/default", *(f"openclaw/{agent}" for agent in settings.agents)]
    return [
        {"id": name, "object": "model", "created": 0, "owned_by": "openclaw", "permission": []}
        for name in dict.fromkeys(names)
    ]
