from __future__ import annotations

import pytest

from core.prompt.kit import full, tools
from palinurus.core.prompt.chat import (
    write_approvals,
    write_directives,
    write_embed,
    write_extra_context,
    write_heartbeats,
    write_messaging,
    write_reactions,
    write_reasoning_format,
    write_silent_replies,
    write_voice,
)
from palinurus.core.prompt.facts import PromptFacts, PromptOptions
from palinurus.core.prompt.render import render_prompt


@pytest.mark.seed(179, 212)
def test_output_directives() -> None:
    text = write_directives(PromptFacts())
    for word in ("MEDIA:", "[[media:", "[[audio_as_voice]]", "[[reply_to_current]]", "[[reply_to:<id>]]"):
        assert word in text
    assert "strips them" in text
    assert len(write_directives(PromptFacts(message_only=True))) < len(text)
    assert "[[" not in write_directives(PromptFacts(message_only=True))


@pytest.mark.seed(184)
def test_reasoning_format() -> None:
    assert write_reasoning_format(PromptFacts()) == ""
    text = write_reasoning_format(PromptFacts(tagged=True))
    assert "<think>" in text and "<final>" in text


@pytest.mark.seed(180)
def test_messaging() -> None:
    text = write_messaging(full(buttons=True))
    assert "`sessions_send`" in text and "`buttons`" in text and "`message`" in text
    plain = write_messaging(PromptFacts(tools=tools("read")))
    assert "sessions_send" not in plain and "buttons" not in plain and "goes by itself" in plain
    assert "is not posted in this chat" in write_messaging(full(message_only=True))


@pytest.mark.seed(229)
def test_approvals_prefer_the_channels_own_way() -> None:
    native = write_approvals(full(approvals=True))
    assert "asks for approvals itself" in native and "rely on that" in native
    assert "only when the tool result says" in native and "unavailable" in native and "only way" in native
    by_hand = write_approvals(full(approvals=False))
    assert "exact `/approve" in by_hand and "rely on that" not in by_hand
    assert write_approvals(PromptFacts(tools=tools("read"))) == ""


@pytest.mark.seed(186, 235, 236)
def test_silence_is_for_automatic_group_replies_only() -> None:
    assert "NO_REPLY" in write_silent_replies(PromptFacts(kind="group")) and "NO_REPLY" in write_silent_replies(
        PromptFacts(kind="channel")
    )
    for facts in (full(kind="direct"), full(kind="group", message_only=True), full(mode="minimal")):
        assert "NO_REPLY" not in render_prompt(facts).text
    assert write_silent_replies(PromptFacts(kind="group", knobs=PromptOptions(silent_group="disallow"))) == ""


@pytest.mark.seed(181)
def test_voice() -> None:
    assert write_voice(PromptFacts()) == ""
    assert write_voice(full()) == "## Voice (TTS)\nSpeak slowly."


@pytest.mark.seed(182)
def test_extra_context() -> None:
    assert write_extra_context(PromptFacts()) == ""
    assert write_extra_context(PromptFacts(kind="group", extra="boats")) == "## Group Chat Context\nboats"
    assert write_extra_context(PromptFacts(kind="direct", extra="be brief")) == "## Additional Instructions\nbe brief"


@pytest.mark.seed(183)
def test_reactions() -> None:
    assert write_reactions(PromptFacts()) == ""
    assert "five to ten exchanges" in write_reactions(
        PromptFacts(tools=tools("message"), reactions="minimal", channel="signal")
    )
    assert "freely" in write_reactions(PromptFacts(tools=tools("message"), reactions="extensive"))
    assert write_reactions(PromptFacts(reactions="extensive")) == ""  # without the tool there is no way to react


@pytest.mark.seed(187, 213)
def test_heartbeats() -> None:
    assert write_heartbeats(PromptFacts()) == ""
    text = write_heartbeats(full())
    assert "Heartbeat prompt: Look around." in text and "HEARTBEAT_OK" in text


def test_only_the_web_chat_embeds() -> None:
    assert write_embed(full(channel="webchat")) and write_embed(full(channel="telegram")) == ""
