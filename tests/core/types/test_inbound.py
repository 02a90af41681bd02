"""What a stored message keeps across versions: its options may be strange, the message is never lost for them."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from palinurus.core.types.inbound import (
    ClientTool,
    EarlierMessage,
    HeartbeatOptions,
    Inbound,
    InlineDirectives,
    Sender,
    Target,
    TurnOptions,
    decode_inbound,
    read_options,
)

# As the rows of earlier versions have them: a plain object under "options".
STORED: dict[str, Any] = {
    "model": "a/b",
    "thinking": "high",
    "fast": "on",
    "maxTokens": 5,
    "temperature": 0.5,
    "toolChoice": {"type": "any"},
    "context": [{"role": "user", "content": "before"}],
    "system": "be brief",
    "clientTools": [{"name": "clock", "description": "", "parameters": {}}],
    "queue": "followup",
    "queueDebounceMs": 10,
    "queueCap": 100,
    "queueDrop": "new",
    "trigger": "heartbeat",
    "inline": {"thinking": "low"},
    "timeoutSeconds": 9,
    "toolsAllow": ["read"],
    "promptMode": "minimal",
    "heartbeat": {"ackMaxChars": 3, "said": "Wet.", "reasoning": True, "ok": True, "alerts": False},
}
MEANT = TurnOptions(
    model="a/b",
    thinking="high",
    fast="on",
    max_tokens=5,
    temperature=0.5,
    tool_choice={"type": "any"},
    context=(EarlierMessage("user", "before"),),
    system="be brief",
    client_tools=(ClientTool("clock"),),
    queue="followup",
    queue_debounce_ms=10,
    queue_cap=100,
    queue_drop="new",
    trigger="heartbeat",
    inline=InlineDirectives("low"),
    timeout_seconds=9,
    tools_allow=("read",),
    prompt_mode="minimal",
    heartbeat=HeartbeatOptions(3, "Wet.", True, True, False),
)


def row(options: Any) -> bytes:
    target, sender = {"channel": "fake"}, {"id": "me"}
    return json.dumps(
        {"target": target, "sender": sender, "event": "e", "text": "hi", "at": 7, "options": options}
    ).encode()


def message(options: TurnOptions = TurnOptions()) -> Inbound:
    return Inbound(Target("fake"), Sender("me"), "e", "hi", 7, options=options)


def test_rows_of_earlier_versions_mean_what_they_meant() -> None:
    assert decode_inbound(row(STORED)) == message(MEANT)
    assert decode_inbound(msgspec.json.encode(message(MEANT))) == message(MEANT)
    assert json.loads(msgspec.json.encode(MEANT)) == STORED


def test_what_nobody_set_is_not_written() -> None:
    assert b"options" not in msgspec.json.encode(Inbound(Target("fake"), Sender("me"), "e", "hi", 7))
    assert msgspec.json.encode(TurnOptions(model="a/b")) == b'{"model":"a/b"}'


def test_unknown_keys_are_ignored() -> None:
    assert decode_inbound(row({**STORED, "moon": "full"})) == message(MEANT)


@pytest.mark.parametrize("name", sorted(STORED))
def test_a_bad_value_costs_itself_and_nothing_else(name: str) -> None:
    bad = [17] if name in ("model", "thinking", "fast", "system", "queue", "queueDrop") else "bad"
    bad = 17 if name == "toolChoice" else bad
    left = {key: value for key, value in STORED.items() if key != name}
    assert decode_inbound(row({**STORED, name: bad})) == message(read_options(left))


@pytest.mark.parametrize("options", [None, 7, "x", []])
def test_options_that_are_no_object_are_none(options: Any) -> None:
    assert decode_inbound(row(options)) == message()


def test_what_is_no_message_is_refused() -> None:
    for body in (b"", b"{", b"[]", b'{"text": "hi"}', row({})[:-5]):
        with pytest.raises(msgspec.DecodeError):
            decode_inbound(body)
