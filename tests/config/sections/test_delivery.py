"""How answers reach people, as the config says it."""

from __future__ import annotations

from typing import Any

import pytest

from configs import read_settings
from palinurus.config.sections.channels import AccountSettings
from palinurus.config.sections.context import BlockSection, CoalesceSection
from palinurus.config.sections.delivery import ACK, DeliverySettings, PresenceSettings
from palinurus.core.stream.chunk import BlockSettings, CoalesceSettings, HumanDelay


def read(**config: Any) -> DeliverySettings:
    return read_settings(config)[0].delivery


def defaults(**said: Any) -> DeliverySettings:
    return read(agents={"defaults": said})


@pytest.mark.seed(318, 319, 320)
def test_nothing_said() -> None:
    made = read()
    assert made == DeliverySettings()
    assert not made.blocks_on and made.blocks == BlockSettings(800, 1200, "paragraph", "text_end")
    assert made.presence == PresenceSettings(None, 6.0, ACK, "group-mentions", False)
    assert made.human == HumanDelay("off", 800, 2500)


def test_blocks_as_said() -> None:
    made = defaults(
        blockStreamingDefault="on",
        blockStreamingBreak="message_end",
        blockStreamingChunk={"minChars": 900, "maxChars": 300, "breakPreference": "sentence"},
    )
    assert made.blocks_on and made.blocks == BlockSettings(300, 300, "sentence", "message_end")
    assert (
        defaults(blockStreamingChunk={"minChars": -1, "maxChars": "x", "breakPreference": "?"}).blocks
        == BlockSettings()
    )


@pytest.mark.seed(321)
def test_joining_fits_the_blocks_unless_it_says_otherwise() -> None:
    assert read().coalesce_sizes(None, 4000) == CoalesceSettings(1000, 800, 1200, "\n\n")
    made = defaults(blockStreamingCoalesce={"idleMs": 99999, "minChars": 50, "maxChars": 70})
    assert made.coalesce_sizes(None, 4000) == CoalesceSettings(5000, 50, 70, "\n\n")
    assert made.coalesce_sizes(None, 60).max_chars == 60  # never more than the channel takes
    own = AccountSettings("c", coalesce=CoalesceSection(idle=5), newline=True)
    assert made.coalesce_sizes(own, 4000) == CoalesceSettings(5, 50, 70, "\n\n", True)


def test_an_account_may_have_its_own_sizes() -> None:
    own = AccountSettings("c", chunk=BlockSection(10, 20))
    assert read().block_sizes(own, 4000) == BlockSettings(10, 20)
    assert read().block_sizes(None, 500) == BlockSettings(500, 500)
    assert read().block_sizes(AccountSettings("c", newline=True), 500) == BlockSettings(1, 500)


def test_a_human_pace() -> None:
    assert defaults(humanDelay={"mode": "natural"}).human == HumanDelay("natural")
    assert defaults(humanDelay={"mode": "custom", "minMs": 900, "maxMs": 100}).human == HumanDelay("custom", 900, 900)
    made = read(
        agents={"list": [{"id": "slow", "humanDelay": {"mode": "natural"}, "typingMode": "never"}, {"id": "b"}]}
    )
    assert made.humans == {"slow": HumanDelay("natural")} and made.typing == {"slow": "never"}
    shared, own = {"humanDelay": {"mode": "custom", "minMs": 900}}, {"id": "a", "humanDelay": {"maxMs": 1000}}
    assert read(agents={"defaults": shared, "list": [own]}).humans == {"a": HumanDelay("custom", 900, 1000)}


def test_signs_of_life() -> None:
    made = read(
        agents={"defaults": {"typingMode": "thinking", "typingIntervalSeconds": 3}},
        messages={"ackReaction": "✅", "ackReactionScope": "none", "removeAckAfterReply": True},
    )
    assert made.presence == PresenceSettings("thinking", 3.0, "✅", "off", True)
    assert (
        read(session={"typingMode": "never"}, agents={"defaults": {"typingMode": "instant"}}).presence.typing == "never"
    )
    assert read(messages={"ackReaction": ""}).presence.ack == ""
