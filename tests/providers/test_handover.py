"""A conversation held with any wire continues with any other: every body is one its provider accepts.

The judges are `palinurus.testing.validators`. Bodies take the way of a real request: repair, encode, shape, JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palinurus.core.history.repair import repair_history
from palinurus.core.types.keys import ModelRef
from palinurus.core.types.messages import Message, UserMessage
from palinurus.core.types.model import ModelRequest, ModelSpec, Prompt
from palinurus.core.types.tool import ToolSpec
from palinurus.core.types.vendor import Vendor
from palinurus.providers import FALLBACK_VENDORS, VENDORS, WIRES, load_row
from palinurus.providers.vendors import custom
from palinurus.providers.wire import compose_body
from palinurus.providers.wire.arguments import encode_json
from palinurus.testing.validators import check_request
from palinurus.testing.validators.turns import check_gemini_signatures
from providers.histories import IDS, STORIES, THOUGHTS, Scribe, anything

TOOLS = (
    ToolSpec("read", "Read", {"type": "object", "properties": {"path": {"type": "string"}}}),
    ToolSpec("screenshot", "Look", {}),
)


class Place(NamedTuple):
    """Where a conversation goes on."""

    provider: str
    model: str = "m"
    api: str = ""
    level: str = "high"
    vision: bool = True

    @property
    def vendor(self) -> Vendor:
        vendor: Vendor = load_row(VENDORS, self.provider) or load_row(FALLBACK_VENDORS, "custom")
        return vendor

    def info(self) -> ModelSpec:
        vendor = self.vendor
        return ModelSpec(
            ModelRef(self.provider, self.model),
            self.api or vendor.api,
            vendor.base_url or "http://127.0.0.1:1",
            reasoning=self.level != "never",
            vision=self.vision,
            max_tokens=64_000,
        )


# Every wire as a plain provider of the config, and the vendors whose rules differ.
PLACES = [
    *[Place("p", api=api, vision=vision) for api in WIRES for vision in (True, False)],
    Place("anthropic", "claude-opus-4-8"),
    Place("anthropic", "claude-sonnet-4-5"),
    Place("anthropic", "claude-sonnet-4-5", level="off"),
    Place("minimax", "MiniMax-M2.7"),
    Place("openai", "gpt-5.5"),
    Place("openai-codex", "gpt-5.3-codex"),
    Place("google", "gemini-3-pro-preview"),
    Place("google", "gemini-2.5-flash", level="adaptive"),
    Place("ollama", "gpt-oss:20b", vision=False),
    Place("amazon-bedrock", "us.anthropic.claude-opus-4-8"),
    Place("amazon-bedrock", "us.anthropic.claude-haiku-4-5-20251001-v1:0"),
    Place("mistral", "mistral-large-latest", level="never"),
    Place("mistral", "mistral-small-latest"),
    Place("deepseek", "deepseek-v4-pro"),
    Place("deepseek", "deepseek-v4-pro", level="off"),
    Place("moonshot", "kimi-k2.6", level="low"),
    Place("openrouter", "anthropic/claude-sonnet-4.6"),
    Place("zai", "glm-5.2"),
    Place("xai", "grok-4"),
]
named = pytest.mark.parametrize("place", PLACES, ids=lambda p: f"{p.provider}-{p.model}-{p.api}-{p.level}-{p.vision}")


def body(place: Place, messages: Sequence[Message], **changes: Any) -> dict[str, Any]:
    level = "off" if place.level == "never" else place.level
    asked = ModelRequest(place.info(), Prompt("You are a test.", "Now."), repair_history(messages), TOOLS, level)
    asked = msgspec.structs.replace(asked, **changes)
    return dict(
        msgspec.json.decode(
            encode_json(compose_body(asked, load_row(WIRES, asked.model.api), place.vendor, custom.VENDOR))
        )
    )


def refusals(place: Place, sent: dict[str, Any]) -> list[str]:
    out = check_request(place.info().api, sent, place.provider)
    return out + (check_gemini_signatures(sent) if place.model.startswith("gemini-3") else [])


def scribes(place: Place) -> list[Scribe]:
    """Everybody who may have held the conversation before: all wires, strange ids, and the model itself."""
    others = [Scribe(api, "other", "x", ids) for api in THOUGHTS for ids in (api, "strange", "mistral")]
    return [*others, Scribe(place.info().api, place.provider, place.model)]


@named
def test_every_provider_accepts(place: Place) -> None:
    for story in STORIES:
        for scribe in scribes(place):
            sent = body(place, story(scribe))
            assert refusals(place, sent) == [], (story.__name__, scribe.api, scribe.ids)


@named
def test_a_story_told_by_all_in_turn(place: Place) -> None:
    """One conversation through every wire."""
    told: list[Message] = []
    for number, api in enumerate(THOUGHTS):
        told += STORIES[(number * 5) % len(STORIES)](Scribe(api, "p", "m", list(IDS)[number]))
    told.append(UserMessage("and now you"))
    assert refusals(place, body(place, told)) == []


@named
def test_without_tools_and_with_a_forced_one(place: Place) -> None:
    """A compaction asks without tools; a plugin may force one."""
    for story in STORIES:
        told = story(Scribe("openai-responses", "other"))
        assert refusals(place, body(place, [*told, UserMessage("sum up")], tools=())) == []
        for choice in ("auto", "none", "required", {"type": "function", "function": {"name": "read"}}):
            assert refusals(place, body(place, told, tool_choice=choice)) == [], choice


@named
def test_no_picture_reaches_a_model_that_cannot_see(place: Place) -> None:
    for story in STORIES:
        sent = str(body(place._replace(vision=False), story(Scribe("anthropic-messages", "other"))))
        assert "iVBORw0KGgo" not in sent and "aGVsbG8=" not in sent


@named
def test_no_thought_reaches_another_model(place: Place) -> None:
    """Opaque payloads belong to the route that made them."""
    for scribe in scribes(place)[:-1]:
        for story in STORIES:
            sent = str(body(place, story(scribe)))
            assert not any(secret in sent for secret in ("EqRkCkY", "gAAA", "b3BhcXVl", "rs_1", "msg_1")), scribe.api


@named
def test_the_beginning_stays_the_same_bytes_as_the_conversation_grows(place: Place) -> None:
    """Or the provider's prompt cache is lost at every turn."""
    place = place._replace(level="never")
    scribe = Scribe("openai-completions", "other")
    told = [m for story in (tools, finished) for m in story(scribe)]
    for end in range(2, len(told) + 1):
        shorter, longer = (turns(body(place, told[:n])) for n in (end - 1, end))
        assert longer[: len(shorter) - 1] == shorter[:-1]


def tools(scribe: Scribe) -> list[Message]:
    return [UserMessage("a"), scribe.said(scribe.text("b")), UserMessage("c"), scribe.said(scribe.text("d"))]


def finished(scribe: Scribe) -> list[Message]:
    return [UserMessage("e"), scribe.said(scribe.text("f")), UserMessage("g")]


def turns(sent: dict[str, Any]) -> list[Any]:
    found = sent.get("messages") or sent.get("input") or sent.get("contents")
    return [clean(turn) for turn in found or []]


def clean(value: Any) -> Any:
    """Without the marks that say where the cache ends: they wander."""
    if isinstance(value, dict):
        return {k: clean(v) for k, v in value.items() if k not in ("cache_control", "cachePoint", "reasoning_content")}
    return [clean(v) for v in value if v != {"cachePoint": {"type": "default"}}] if isinstance(value, list) else value


@settings(max_examples=80, deadline=None)
@given(told=anything, asked=st.booleans(), data=st.data())
def test_whatever_happened_before(told: list[Message], asked: bool, data: st.DataObject) -> None:
    for place in PLACES:
        history = repair_history(told)
        ends = history and getattr(history[-1], "toolCallId", None) and not asked
        assert refusals(place, body(place, told if ends else [*told, UserMessage("go on")])) == [], place


def test_the_judges_judge() -> None:
    """Each refuses a body that is wrong in one way, so that a silent judge is noticed."""
    for place in PLACES:
        good = body(place, STORIES[4](Scribe("openai-completions", "other")))
        assert refusals(place, good) == []
        key = next(k for k in ("messages", "input", "contents") if k in good)
        assert refusals(place, {**good, key: []})
        assert refusals(place, {**good, key: good[key][:-1]}), place  # a call without its result
        assert refusals(place, {**good, key: [*good[key], good[key][-1]]}), place  # the result twice
