"""Slack's payloads -> messages."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.channels.slack.inbound import (
    SlackContext,
    SlackIdentity,
    find_chat_kind,
    parse_command,
    parse_message,
    parse_press,
    to_millis,
    to_readable,
)

ME = SlackIdentity("UPAL", "BPAL", "T1")
DIRECT = SlackContext(ME, "default", "direct")
CHANNEL = SlackContext(ME, "work", "channel", "harbour", "bob")


def event(**changes: Any) -> dict[str, Any]:
    base = {"type": "message", "channel": "C1", "user": "UBOB", "ts": "1767225600.000200", "text": "hi", "team": "T1"}
    return {**base, **changes}


def test_a_message() -> None:
    heard = parse_message(event(text="<@UPAL> hello"), CHANNEL)
    assert heard is not None
    one = heard.inbound
    assert (one.target.channel, one.target.to, one.target.account, one.target.thread) == ("slack", "C1", "work", "")
    assert (one.sender.id, one.sender.name, one.sender.bot) == ("UBOB", "bob", False)
    assert (one.event, one.text, one.kind, one.mentioned) == ("C1:1767225600.000200", "hello", "channel", True)
    assert (one.at, one.team, one.title) == (1_767_225_600_000, "T1", "harbour")


@pytest.mark.parametrize(
    "changes",
    [
        {"subtype": "message_changed"},
        {"subtype": "message_deleted"},
        {"subtype": "channel_join"},
        {"user": "UPAL"},
        {"user": "", "bot_id": "BPAL", "subtype": "bot_message"},
        {"user": "", "bot_id": ""},
        {"ts": ""},
        {"channel": ""},
    ],
)
def test_what_is_no_message_to_us(changes: dict[str, Any]) -> None:
    assert parse_message(event(**changes), CHANNEL) is None


@pytest.mark.parametrize(
    ("changes", "around", "meant"),
    [
        ({}, CHANNEL, False),
        ({}, DIRECT, True),
        ({"type": "app_mention"}, CHANNEL, True),
        ({"text": "<@UPALX> hi"}, CHANNEL, False),
        ({"thread_ts": "1.2", "parent_user_id": "UPAL"}, CHANNEL, True),
        ({"thread_ts": "1.2", "parent_user_id": "UBOB"}, CHANNEL, False),
    ],
)
def test_when_we_are_meant(changes: dict[str, Any], around: SlackContext, meant: bool) -> None:
    heard = parse_message(event(**changes), around)
    assert heard is not None and heard.inbound.mentioned is meant


def test_a_program_that_writes_is_one() -> None:
    heard = parse_message(event(user="", bot_id="B9", subtype="bot_message"), CHANNEL)
    assert heard is not None and heard.inbound.sender.bot and heard.inbound.sender.id == "B9"


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("&lt;b&gt; &amp;amp; x", "<b> &amp; x"),
        ("<@U1|ann> and <@U2>", "@ann and @U2"),
        ("<#C1|general> <!here> <!subteam^S1|@team>", "#general @here @team"),
        ("<https://e.x/?a=1&amp;b=2|the page>", "[the page](https://e.x/?a=1&b=2)"),
        ("<http://e.x|e.x> <https://e.x/>", "http://e.x https://e.x/"),
        ("<mailto:a@e.x|a@e.x>", "a@e.x"),
        ("<@UPAL>: do it", ": do it"),
        ("a < b", "a < b"),
    ],
)
def test_what_a_person_reads(written: str, read: str) -> None:
    assert to_readable(written, ME) == read


@pytest.mark.parametrize(
    ("name", "rest", "text"),
    [
        ("/status", "", "/status"),
        ("/think", "high", "/think high"),
        ("/pal", "status", "/status"),
        ("/pal", "what is up?", "what is up?"),
        ("/pal", "", "/help"),
    ],
)
def test_slash_commands(name: str, rest: str, text: str) -> None:
    payload = {"command": name, "text": rest, "user_id": "U1", "channel_id": "D1", "trigger_id": "t"}
    made = parse_command(payload, DIRECT, {"status", "think"}, 5)
    assert made is not None and (made.text, made.event, made.sender.id) == (text, "command:t", "U1")


def test_a_button_is_said_by_who_presses_it() -> None:
    payload = {
        "type": "block_actions",
        "user": {"id": "U1", "name": "ann"},
        "channel": {"id": "C1"},
        "container": {"message_ts": "5.6", "thread_ts": "1.2"},
        "actions": [{"action_ts": "7.8", "value": "x"}],
    }
    made = parse_press(payload, CHANNEL, "/approve 1 allow-once")
    assert made is not None
    assert (made.text, made.pressed, made.sender.id, made.mentioned) == ("/approve 1 allow-once", "5.6", "U1", True)
    assert made.target.thread == "1.2" and made.event == "press:C1:5.6:U1:7.8"
    assert parse_press(payload, CHANNEL, "") is None


def test_kinds_of_chats() -> None:
    assert [find_chat_kind("D1"), find_chat_kind("C1"), find_chat_kind("G1", "mpim"), find_chat_kind("C1", "im")] == [
        "direct",
        "channel",
        "group",
        "direct",
    ]


@pytest.mark.parametrize(
    ("ts", "at"), [("12.345678", 12345), ("12", 12000), ("", 0), ("x.y", 0), ("²", 0), ("1.²", 1000)]
)
def test_times(ts: str, at: int) -> None:
    assert to_millis(ts) == at


@given(st.text())
def test_any_text_can_be_read(text: str) -> None:
    assert f"<@{ME.user}>" not in to_readable(text, ME)
    to_millis(text)
