"""The official clients as counterparts: their request types take every body we build, whoever held the conversation
before; and what they read out of a recorded stream is what our decoders read. (Importing them is slow.)"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, get_type_hints

import httpx
import pytest
from pydantic import TypeAdapter, ValidationError

from later import LaterModule
from palinurus.core.types.messages import Message
from palinurus.core.types.model import StreamDone
from palinurus.providers import WIRES, load_row
from providers.histories import STORIES, THOUGHTS, Scribe
from providers.kit import info, recorded, request
from providers.test_handover import Place, body

ollama = LaterModule("ollama")
genai = LaterModule("google.genai")
google = LaterModule("google.genai.types")

TYPES = {
    "openai-completions": ("openai.types.chat.completion_create_params", "CompletionCreateParamsStreaming"),
    "anthropic-messages": ("anthropic.types.message_create_params", "MessageCreateParamsStreaming"),
    "openai-responses": ("openai.types.responses.response_create_params", "ResponseCreateParamsStreaming"),
    "openai-codex-responses": ("openai.types.responses.response_create_params", "ResponseCreateParamsStreaming"),
}


def kind(api: str) -> Any:
    module, name = TYPES[api]
    return getattr(import_module(module), name)


@functools.cache
def adapter(api: str) -> TypeAdapter[Any]:
    return TypeAdapter(kind(api))


def forced(value: Any) -> Any:
    """Iterables are judged only when somebody walks through them."""
    if isinstance(value, dict):
        return {key: forced(inner) for key, inner in value.items()}
    if isinstance(value, str | bytes | int | float | bool | None):
        return value
    return [forced(inner) for inner in value]


def typed(api: str, sent: dict[str, Any]) -> None:
    forced(adapter(api).validate_python(sent))
    known = set(get_type_hints(kind(api)))
    assert set(sent) <= known, f"unknown to the client: {set(sent) - known}"


def gemini(api: str, sent: dict[str, Any]) -> None:
    """Its models forbid fields they do not know."""
    for turn in sent["contents"]:
        google.Content.model_validate(turn)
    google.Content.model_validate(sent["systemInstruction"])
    for tool in sent.get("tools", ()):
        google.Tool.model_validate(tool)
    google.ToolConfig.model_validate(sent.get("toolConfig", {}))
    google.GenerationConfig.model_validate(sent.get("generationConfig", {}))
    assert set(sent) <= {"contents", "systemInstruction", "tools", "toolConfig", "generationConfig"}


def native(api: str, sent: dict[str, Any]) -> None:
    """Nothing of what we send may be lost on its way through the client's own request."""
    back = ollama._types.ChatRequest.model_validate(sent).model_dump(exclude_none=True)
    made = [{**m, "images": [ollama.Image(value=i) for i in m.get("images", ())]} for m in sent["messages"]]
    read = [ollama.Message.model_validate(m).model_dump(exclude_none=True) for m in made]
    for ours, theirs in zip(sent["messages"], read, strict=True):
        assert {k: v for k, v in ours.items() if k != "images"} == {k: v for k, v in theirs.items() if k != "images"}
        assert len(ours.get("images", ())) == len(theirs.get("images", ()))
    assert set(sent) == set(back)


JUDGES: dict[str, Callable[[str, dict[str, Any]], None]] = {
    **dict.fromkeys(TYPES, typed),
    "google-generative-ai": gemini,
    "ollama": native,
}
PLACES = [
    Place("openai", "gpt-5.5"),
    Place("openai", "gpt-5.5", level="off"),
    Place("openai", "gpt-5.5", "openai-completions"),
    Place("openai-codex", "gpt-5.3-codex"),
    Place("anthropic", "claude-opus-4-8"),
    Place("anthropic", "claude-sonnet-4-5"),
    Place("google", "gemini-3-pro-preview"),
    Place("google", "gemini-2.5-flash", level="off"),
    Place("ollama", "gpt-oss:20b"),
]


@pytest.mark.parametrize("place", PLACES, ids=lambda p: f"{p.provider}-{p.model}-{p.api}-{p.level}")
@pytest.mark.parametrize("story", STORIES, ids=lambda s: s.__name__)
def test_the_official_types_take_every_body(place: Place, story: Callable[[Scribe], list[Message]]) -> None:
    api = place.info().api
    for held in THOUGHTS:
        JUDGES[api](api, body(place, story(Scribe(held, "other", "x"))))
    JUDGES[api](api, body(place, story(Scribe(api, place.provider, place.model)), tool_choice="required"))


def test_the_types_refuse_what_is_wrong() -> None:
    """Or the test above would prove nothing."""
    told = STORIES[4](Scribe("ollama", "other"))
    for place in PLACES:
        api = place.info().api
        sent = body(place, told)
        key = next(k for k in ("messages", "input", "contents") if k in sent)
        wrong = {"type": "function_call"} if key == "input" else {"role": 7, "content": 7}
        with pytest.raises((ValidationError, AssertionError)):
            JUDGES[api](api, {**sent, key: [*sent[key], wrong]})
        with pytest.raises((ValidationError, AssertionError)):
            JUDGES[api](api, {**sent, "no_such_field": 1})


# --- streams --------------------------------------------------------------------------------------------------
# Completions, Messages and Responses are compared next to their decoders (wire/*/test_decode.py).


def ours(api: str, data: bytes) -> StreamDone:
    decoder = load_row(WIRES, api).decoder(request(model=info(api)))
    last = [*decoder.feed(data), *decoder.close()][-1]
    assert isinstance(last, StreamDone)
    return last


def test_googles_client_reads_the_same() -> None:
    data = recorded("gemini/tools.sse")

    def answer(asked: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=data, headers={"content-type": "text/event-stream"})

    client = genai.Client(
        api_key="x",
        http_options=google.HttpOptions(httpx_client=httpx.Client(transport=httpx.MockTransport(answer))),
    )
    parts: list[google.Part] = []
    used: google.GenerateContentResponseUsageMetadata | None = None
    for chunk in client.models.generate_content_stream(model="m", contents="x"):
        used = chunk.usage_metadata or used
        candidate = (chunk.candidates or [google.Candidate()])[0]
        parts += (candidate.content.parts if candidate.content else None) or []
    message = ours("google-generative-ai", data).message
    assert "".join(p.text for p in parts if p.text and not p.thought) == message.text != ""
    assert "".join(p.text for p in parts if p.text and p.thought) == message.thinking != ""
    calls = [p.function_call for p in parts if p.function_call]
    assert [(c.id, c.name, c.args) for c in calls] == [(c.id, c.name, c.arguments) for c in message.calls]
    assert used is not None
    usage = message.usage
    assert used.prompt_token_count == usage.input + usage.cacheRead
    assert (used.candidates_token_count or 0) + (used.thoughts_token_count or 0) == usage.output
    assert used.total_token_count == usage.totalTokens


def test_ollamas_client_reads_the_same() -> None:
    data = recorded("ollama/tools.ndjson")

    def answer(asked: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=data)

    client = ollama.Client(host="http://sdk", transport=httpx.MockTransport(answer))
    chunks: Iterator[ollama.ChatResponse] = client.chat("m", [], stream=True)
    text, thought, calls, last = "", "", [], None
    for chunk in chunks:
        text += chunk.message.content or ""
        thought += chunk.message.thinking or ""
        calls += chunk.message.tool_calls or []
        last = chunk
    message = ours("ollama", data).message
    assert (text, thought) == (message.text, message.thinking) != ("", "")
    assert [(c.function.name, c.function.arguments) for c in calls] == [(c.name, c.arguments) for c in message.calls]
    assert last is not None
    assert (last.prompt_eval_count, last.eval_count) == (message.usage.input, message.usage.output)
