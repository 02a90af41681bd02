"""What becomes of a message whose session is busy."""

from __future__ import annotations

import pytest

from palinurus.core.types.inbound import Inbound, Target
from palinurus.inbox.queue import mode
from support import inbound

CHAT = inbound(target=Target("telegram", "7"))


@pytest.mark.seed(377, 380)
def test_a_message_in_the_same_chat_is_steered() -> None:
    assert mode(CHAT, CHAT) == "steer"


@pytest.mark.parametrize(
    ("message", "running"),
    [
        (inbound(target=Target("telegram", "8")), CHAT),
        (inbound(target=Target("telegram", "7", thread="2")), CHAT),
        (inbound(target=Target("spool", "7")), CHAT),
        (CHAT, inbound(target=Target("telegram", "7"), push=False)),
        (inbound(target=Target("http")), inbound(target=Target("http"))),
        (inbound(target=Target("telegram", "7"), options={"queue": "followup"}), CHAT),
    ],
)
def test_an_answer_comes_back_to_where_it_was_asked(message: Inbound, running: Inbound) -> None:
    assert mode(message, running) == "followup"
