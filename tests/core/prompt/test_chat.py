from __future__ import annotations

import pytest

from core.prompt.kit import full, tools
from palinurus.core.prompt.chat import (
    approvals,
    directives,
    embed,
    extra,
    heartbeats,
    messaging,
    reactions,
    reasoning_format,
    silent,
    voice,
)
from palinurus.core.prompt.facts import Facts
from palinurus.core.prompt.knobs import Knobs
from palinurus.core.prompt.render import render


@pytest.mark.seed(179, 212)
def test_output_directives() -> None:
    text = directives(Facts())
    for word in ("MEDIA:", "[[media:", "[[audio_as_voice]]", "[[reply_to_current]]", "[[reply_to:<id>]]"):
        assert word in text
    assert "strips them" in text
    assert len(directives(Facts(message_only=True))) < len(text)
    assert "[[" not in directives(Facts(message_only=True))


@pytest.mark.seed(184)
def test_reasoning_format() -> None:
    assert reasoning_format(Facts()) == ""
    text = reasoning_format(Facts(tagged=True))
    assert "<think>" in text and "<final>" in text


@pytest.mark.seed(180)
def test_messaging() -> None:
    text = messaging(full(buttons=True))
    assert "`sessions_send`" in text and "`buttons`" in text and "`message`" in text
    plain = messaging(Facts(tools=tools("read")))
    assert "sessions_send" not in plain and "buttons" not in plain and "goes by itself" in plain
    assert "is not posted in this chat" in messaging(full(message_only=True))


@pytest.mark.seed(229)
def test_approvals_prefer_the_channels_own_way() -> None:
    native = approvals(full(approvals=True))
    assert "asks for approvals itself" in native and "rely on that" in native
    assert "only when the tool result says" in native and "unavailable" in native and "only way" in native
    by_hand = approvals(full(approvals=False))
    assert "exact `/approve" in by_hand and "rely on that" not in by_hand
    assert approvals(Facts(tools=tools("read"))) == ""


@pytest.mark.seed(186, 235, 236)
def test_silence_is_for_automatic_group_replies_only() -> None:
    assert "NO_REPLY" in silent(Facts(kind="group")) and "NO_REPLY" in silent(Facts(kind="channel"))
    for facts in (full(kind="direct"), full(kind="group", message_only=True), full(mode="minimal")):
        assert "NO_REPLY" not in render(facts).text
    assert silent(Facts(kind="group", knobs=Knobs(silent_group="disallow"))) == ""


@pytest.mark.seed(181)
def test_voice() -> None:
    assert voice(Facts()) == ""
    assert voice(full()) == "## Voice (TTS)\nSpeak slowly."


@pytest.mark.seed(182)
def test_extra_context() -> None:
    assert extra(Facts()) == ""
    assert extra(Facts(kind="group", extra="boats")) == "## Group Chat Context\nboats"
    assert extra(Facts(kind="direct", extra="be brief")) == "## Additional Instructions\nbe brief"


@pytest.mark.seed(183)
def test_reactions() -> None:
    assert reactions(Facts()) == ""
    assert "five to ten exchanges" in reactions(Facts(reactions="minimal", channel="signal"))
    assert "freely" in reactions(Facts(reactions="extensive"))


@pytest.mark.seed(187, 213)
def test_heartbeats() -> None:
    assert heartbeats(Facts()) == ""
    text = heartbeats(full())
    assert "Heartbeat prompt: Look around." in text and "HEARTBEAT_OK" in text


def test_only_the_web_chat_embeds() -> None:
    assert embed(full(channel="webchat")) and embed(full(channel="telegram")) == ""
