"""What is stored of a message, and what is refused."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from palinurus.config.settings import AgentSettings, Settings
from palinurus.core.types.inbound import Inbound, Target, TurnOptions
from palinurus.core.types.messages import ImageBlock
from palinurus.errors import BadRequest
from palinurus.inbox.message import MessageReader
from palinurus.inbox.route import MAX_EVENT, MAX_TEXT, build_item
from palinurus.store.port import InboxItem
from palinurus.testing.clock import START_MS, FakeClock
from support import inbound

SETTINGS = Settings("/h", {"main": AgentSettings("main", "main", "/w")}, "main")


def store(message: Inbound) -> InboxItem:
    return build_item(message, MessageReader(SETTINGS).route(message), FakeClock())


def test_the_row_holds_the_message_and_where_it_goes() -> None:
    message = inbound("hello", event="e1", target=Target("telegram", "7", "bot2"))
    route = MessageReader(SETTINGS).route(message)
    item = build_item(message, route, FakeClock())
    assert (item.session, item.lane, item.at) == (str(route.key), "main", START_MS)
    assert item.dedupe == "telegram/bot2/e1"
    assert msgspec.json.decode(item.body, type=Inbound) == message


def test_messages_without_an_event_are_never_the_same() -> None:
    first, second = (store(inbound("hello")) for _ in range(2))
    assert first.dedupe != second.dedupe and first.id != second.id


def test_an_image_is_a_message() -> None:
    store(inbound("", images=(ImageBlock("aGk=", "image/png"),)))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"text": " \n"}, "empty"),
        ({"text": "x" * (MAX_TEXT + 1)}, "1,000,001 characters"),
        ({"text": "x", "event": "e" * (MAX_EVENT + 1)}, "longer than 512"),
        ({"text": "x", "agent": "nobody"}, "unknown agent"),
        ({"text": "x", "session": "../up"}, "not a session key"),
        ({"text": "lone \ud800 surrogate"}, "cannot be stored"),
        ({"text": "x", "options": TurnOptions(tool_choice={"a": object()})}, "cannot be stored"),
    ],
)
def test_what_cannot_be_a_message_is_refused_with_the_reason(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(BadRequest, match=said):
        store(inbound(**changes))
