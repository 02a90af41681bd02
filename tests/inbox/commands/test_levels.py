"""Directives for the session: what is said, what is stored, what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from palinurus.core.types.inbound import Sender, Target

BASE = "default, off, minimal, low, medium, high"

SET: list[tuple[str, str, dict[str, Any]]] = [
    ("/think high", "Thinking level set to high.", {"thinkingLevel": "high"}),
    ("/t low", "Thinking level set to low.", {"thinkingLevel": "low"}),
    ("/think:medium", "Thinking level set to medium.", {"thinkingLevel": "medium"}),
    ("/thinking highest", "Thinking level set to high.", {"thinkingLevel": "high"}),
    ("/think ultrathink", "Thinking level set to high.", {"thinkingLevel": "high"}),
    ("/think think hard", "Thinking level set to low.", {"thinkingLevel": "low"}),
    ("/think off", "Thinking disabled.", {"thinkingLevel": "off"}),
    ("/fast auto", "Fast mode set to auto.", {"fastMode": "auto"}),
    ("/fast on", "Fast mode enabled.", {"fastMode": True}),
    ("/fast off", "Fast mode disabled.", {"fastMode": False}),
    ("/verbose on", "Verbose logging enabled.", {"verboseLevel": "on"}),
    ("/v full", "Verbose logging set to full.", {"verboseLevel": "full"}),
    ("/verbose off", "Verbose logging disabled.", {"verboseLevel": "off"}),
    ("/trace on", "Plugin trace enabled.", {"traceLevel": "on"}),
    ("/trace off", "Plugin trace disabled.", {"traceLevel": "off"}),
    ("/reasoning on", "Reasoning visibility enabled.", {"reasoningLevel": "on"}),
    ("/reason off", "Reasoning visibility disabled.", {"reasoningLevel": "off"}),
    ("/reasoning stream", "Reasoning stream enabled.", {"reasoningLevel": "stream"}),
    ("/elevated off", "Elevated mode disabled.", {"elevatedLevel": "off"}),
    ("/elevated ask", "Elevated mode set to ask (approvals may still apply).", {"elevatedLevel": "ask"}),
    ("/elevated full", "Elevated mode set to full (auto-approve).", {"elevatedLevel": "full"}),
    ("/queue collect", "Queue mode set to collect.", {"queueMode": "collect"}),
    (
        "/queue follow-ups debounce:2s cap:5 drop:old",
        "Queue mode set to followup. Queue debounce set to 2000ms. Queue cap set to 5. Queue drop set to old.",
        {"queueMode": "followup", "queueDebounceMs": 2000, "queueCap": 5, "queueDrop": "old"},
    ),
    ("/exec host=node ask=off", "Exec defaults set (host=node, ask=off).", {"execHost": "node", "execAsk": "off"}),
]  # fmt: skip


@pytest.mark.seed(15, 51, 57, 58, 61, 62, 63, 68, 69, 70, 71, 89, 90, 92, 107, 108, 113, 122)
@pytest.mark.parametrize(("text", "said", "stored"), SET)
async def test_a_directive_alone_is_stored_and_confirmed(office: Any, text: str, said: str, stored: Any) -> None:
    assert await office.say(text) == said
    assert await office.stored() == stored


@pytest.mark.seed(59, 60, 72)
@pytest.mark.parametrize("word", ["default", "inherit", "clear", "reset", "unpin"])
@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("think", "high", "Thinking level reset to default."),
        ("fast", "on", "Fast mode reset to default."),
        ("verbose", "off", "Verbose level reset to default."),
        ("trace", "on", "Trace level reset to default."),
        ("reasoning", "on", "Reasoning level reset to default."),
        ("elevated", "full", "Elevated level reset to default."),
        ("queue", "collect", "Queue mode reset to default."),
        ("model", "big/deep-1", "Model reset to default (fake/m)."),
        ("exec", "ask=off", "Exec defaults reset."),
    ],
)
async def test_clear_words_drop_the_override(office: Any, word: str, name: str, value: str, said: str) -> None:
    await office.say(f"/{name} {value}")
    assert await office.stored() != {}
    assert await office.say(f"/{name} {word}") == said
    assert await office.stored() == {}


@pytest.mark.seed(64, 91)
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("/thinking big", f'Unrecognized thinking level "big". Valid levels: {BASE}.'),
        ("/fast soon", 'Unrecognized fast mode "soon". Valid levels: status, auto, on, off, default.'),
        ("/verbose loud", 'Unrecognized verbose level "loud". Valid levels: on, full, off, default.'),
        ("/trace deep", 'Unrecognized trace level "deep". Valid levels: on, off, default.'),
        ("/reasoning loud", 'Unrecognized reasoning level "loud". Valid levels: on, off, stream, default.'),
        ("/elevated up", 'Unrecognized elevated level "up". Valid levels: off, on, ask, full, default.'),
        ("/queue sideways", 'Unrecognized queue mode "sideways". Valid modes: steer, followup, collect, interrupt.'),
        ("/exec host=mars", 'Invalid exec host "mars". Use one of: auto, sandbox, gateway, node.'),
    ],
)
async def test_an_invalid_word_changes_nothing(office: Any, text: str, said: str) -> None:
    await office.say("/think low /verbose full /fast on")
    before = await office.record()
    assert await office.say(text) == said
    assert await office.record() == before


@pytest.mark.seed(18)
async def test_a_level_the_model_does_not_offer_is_refused_with_its_options(office: Any) -> None:
    said = 'Thinking level "xhigh" is not supported for fake/m. Use one of: off, minimal, low, medium, high.'
    assert await office.say("/think extra high") == said
    assert await office.record() is None
    assert (
        await office.say("/model deep /think x_high") == "Thinking level set to xhigh. Model set to deep (big/deep-1)."
    )


@pytest.mark.seed(65, 73, 96, 110, 117)
@pytest.mark.parametrize("colon", ["", ":"])
async def test_a_bare_directive_reports(office: Any, colon: str) -> None:
    await office.say("/think low /fast on /verbose full /trace on /reasoning stream")
    before = await office.record()
    expected = {
        "think": f"Current thinking level: low.\nOptions: {BASE}.",
        "fast": "Current fast mode: on.\nOptions: status, auto, on, off, default.",
        "verbose": "Current verbose level: full.\nOptions: on, full, off, default.",
        "trace": "Current trace level: on.\nOptions: on, off, default.",
        "reasoning": "Current reasoning level: stream.\nOptions: on, off, stream, default.",
        "elevated": "Current elevated level: off.\nOptions: off, on, ask, full, default.",
    }
    for name, said in expected.items():
        assert await office.say(f"/{name}{colon}") == said
    assert await office.say("/fast status") == expected["fast"]
    assert await office.record() == before


@pytest.mark.seed(89, 107)
async def test_defaults(office: Any) -> None:
    assert (await office.say("/think")).startswith("Current thinking level: medium.")
    assert (await office.say("/fast")).startswith("Current fast mode: off (default).")
    assert (await office.say("/verbose")).startswith("Current verbose level: off.")
    assert (await office.say("/trace")).startswith("Current trace level: off.")
    assert (await office.say("/queue")).startswith("Current queue settings: mode=steer, debounce=500ms, cap=20,")
    assert (await office.say("/exec")).startswith("Current exec defaults: host=default,")


async def test_several_are_answered_in_their_order(office: Any) -> None:
    said = await office.say("/queue collect /verbose on /think high")
    assert said == "Thinking level set to high. Verbose logging enabled. Queue mode set to collect."
    assert await office.stored() == {"thinkingLevel": "high", "verboseLevel": "on", "queueMode": "collect"}


async def test_one_that_cannot_be_done_keeps_all_from_being_done(office: Any) -> None:
    said = await office.say("/verbose on /think huge /fast never")
    assert said.startswith('Unrecognized thinking level "huge".') and 'fast mode "never"' in said
    assert "Verbose" not in said
    assert await office.record() is None


async def test_a_model_switch_fits_the_stored_level(office: Any) -> None:
    await office.say("/model big/deep-1 /think xhigh")
    said = await office.say("/model fake/m")
    assert said == "Thinking level set to high (xhigh not supported for fake/m). Model set to fake/m."
    assert (await office.stored())["thinkingLevel"] == "high"
    said = await office.say("/model fake/dull")
    assert said == "Thinking level set to off (high not supported for fake/dull). Model set to fake/dull."


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("/model", "Current model: fake/m (default).\nSwitch with /model <provider/model>; /models lists them."),
        ("/model deep", "Model set to deep (big/deep-1)."),
        ("/model 2", "Model set to fake/dull."),
        ("/model 99", "There is no model number 99; /models lists."),
        ("/model zzzzzz", "Fake has no model 'zzzzzz'. /models lists what there is."),
        ("/model fake/mm", "Fake has no model 'mm'; did you mean 'fake/m'? /models lists what there is."),
    ],
)
async def test_model(office: Any, text: str, said: str) -> None:
    assert await office.say(text) == said
    chosen = said.startswith("Model set")
    assert bool((await office.stored()).get("modelOverride")) is chosen


async def test_a_model_without_a_key_is_not_chosen(office: Any) -> None:
    said = await office.say("/model anthropic/claude-opus-4-8")
    assert "no API key" in said and await office.record() is None


async def test_model_list_is_numbered(office: Any) -> None:
    said = await office.say("/model list")
    assert "1. fake/m *" in said and "3. big/deep-1 (deep)" in said


ALLOWED = Sender("friend", allowed=True)


@pytest.mark.seed(93, 94)
@pytest.mark.parametrize(
    ("sender", "channel", "kept"),
    [
        (Sender("me", owner=True), "webchat", True),
        (Sender("x", allowed=True, scopes=("operator.admin",)), "webchat", True),
        (Sender("x", allowed=True, scopes=("operator.write",)), "webchat", False),
        (ALLOWED, "webchat", False),
        (ALLOWED, "telegram", True),
    ],
)
async def test_who_may_keep_verbose(office: Any, sender: Sender, channel: str, kept: bool) -> None:
    push = channel == "telegram"
    said = await office.say("/verbose on", sender=sender, target=Target(channel, "7"), push=push)
    assert said.startswith("Verbose logging enabled.")
    assert ("operator.admin" in said) is not kept
    assert await office.stored() == ({"verboseLevel": "on"} if kept else {})


@pytest.mark.parametrize("text", ["/elevated full", "/exec security=full"])
async def test_what_only_the_owner_may_loosen(office: Any, text: str) -> None:
    assert "by the owner only" in await office.say(f"{text} /think high", sender=ALLOWED)
    assert await office.record() is None
    assert (await office.say(text.split()[0], sender=ALLOWED)).startswith("Current ")


async def test_a_directive_of_the_next_day_belongs_to_the_next_session(office: Any) -> None:
    await office.say("/think high /model deep")
    first = await office.record()
    await office.clock.advance(2 * 86_400)
    await office.say("/verbose on")
    second = await office.record()
    assert second.sessionId != first.sessionId
    assert await office.stored() == {
        "verboseLevel": "on",
        "providerOverride": "big",
        "modelOverride": "deep-1",
        "modelOverrideSource": "user",
        "usageFamilyKey": "agent:main:main",
        "usageFamilySessionIds": [first.sessionId],
    }
