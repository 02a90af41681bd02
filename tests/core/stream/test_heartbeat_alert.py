"""What a heartbeat's end comes to."""

from __future__ import annotations

import msgspec
import pytest

from palinurus.core.stream.heartbeat import find_last_word, judge_heartbeat_reply
from palinurus.core.types.inbound import HeartbeatOptions
from palinurus.core.types.messages import AssistantMessage, TextBlock


@pytest.mark.parametrize(
    ("text", "options", "drop", "said"),
    [
        ("HEARTBEAT_OK", {}, True, ""),
        ("HEARTBEAT_OK dry", {}, True, "dry"),
        ("HEARTBEAT_OK dry", {"ackMaxChars": 2}, False, "dry"),
        ("HEARTBEAT_OK dry", {"ackMaxChars": 3}, True, "dry"),
        ("Wet.", {}, False, "Wet."),
        ("Wet.", {"said": "Wet."}, True, "Wet."),
        ("Wet. HEARTBEAT_OK", {"said": "Wet.", "ackMaxChars": 0}, True, "Wet."),
        ("", {"said": ""}, True, ""),
    ],
)
def test_judged(text: str, options: dict[str, object], drop: bool, said: str) -> None:
    assert judge_heartbeat_reply(text, msgspec.convert(options, HeartbeatOptions))[:2] == (drop, said)


def test_the_last_word_still_has_its_token() -> None:
    first, last = (
        AssistantMessage((TextBlock("Looking."),)),
        AssistantMessage((TextBlock("<think>x</think>HEARTBEAT_OK all dry"),)),
    )
    assert find_last_word((first, last)) == "HEARTBEAT_OK all dry"
    assert find_last_word((first, AssistantMessage((TextBlock("NO_REPLY"),)))) == ""
    assert find_last_word((first, AssistantMessage((TextBlock(" "),)))) == "Looking."
