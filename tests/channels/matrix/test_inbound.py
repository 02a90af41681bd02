"""Matrix events -> messages."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.channels.intake import RemoteFile
from palinurus.channels.matrix import inbound as words
from palinurus.channels.matrix.inbound import (
    MatrixContext,
    parse_message,
    select_since_joined,
    strip_mention,
    strip_quotation,
)
from palinurus.core.types.inbound import MessageQuote

ME, ANN = "@pal:e.x", "@ann:e.x"
GROUP = MatrixContext(ME, "default", "group", "harbour", "Ann", "Pal", commands=("status", "approve"))
DIRECT = msgspec.structs.replace(GROUP, kind="direct", title="")


def event(body: str = "hi", **changes: Any) -> dict[str, Any]:
    content = {"msgtype": "m.text", "body": body, **changes.pop("content", {})}
    base = {"type": "m.room.message", "event_id": "$1", "sender": ANN, "origin_server_ts": 5, "content": content}
    return {**base, **changes}


def heard(told: dict[str, Any], around: MatrixContext = GROUP) -> Any:
    found = parse_message(told, "!r:e.x", around)
    assert found is not None
    return found.inbound


def test_a_message() -> None:
    one = heard(event("hello"))
    assert (one.target.channel, one.target.to, one.target.thread) == ("matrix", "!r:e.x", "")
    assert (one.sender.id, one.sender.name, one.sender.bot, one.event, one.at) == (ANN, "Ann", False, "$1", 5)
    assert (one.text, one.kind, one.mentioned, one.title) == ("hello", "group", False, "harbour")
    assert heard(event("hello"), DIRECT).mentioned


@pytest.mark.parametrize(
    "told",
    [
        event(sender=ME),
        event(type="m.reaction"),
        event(content={"msgtype": "m.key.verification.request"}),
        event(content={"m.relates_to": {"rel_type": "m.replace", "event_id": "$0"}}),
        event(event_id=None),
        {**event(), "content": None},  # redacted
        {},
    ],
)
def test_what_is_no_message_to_us(told: dict[str, Any]) -> None:
    assert parse_message(told, "!r", GROUP) is None


@pytest.mark.parametrize(
    ("body", "content", "meant", "text"),
    [
        ("Pal: go", {"m.mentions": {"user_ids": [ME]}}, True, "go"),
        ("pal, go", {"m.mentions": {"user_ids": [ME]}}, True, "go"),
        (f"{ME} go", {}, True, "go"),
        (f"go, {ME}: now", {}, True, "go, now"),
        ("Pal: go", {"formatted_body": f'<a href="https://matrix.to/#/{ME}">Pal</a>: go'}, True, "go"),
        ("Pal go", {"formatted_body": '<a href="https://matrix.to/#/%40pal%3Ae.x">Pal</a> go'}, True, "go"),
        ("Pal: go", {}, False, "Pal: go"),
        ("@pal:e.xy go", {}, False, "@pal:e.xy go"),
        ("all", {"m.mentions": {"room": True}}, False, "all"),
        ("x", {"m.mentions": {"user_ids": "@pal:e.x"}}, False, "x"),
        ("Palette", {"m.mentions": {"user_ids": [ME]}}, True, "Palette"),
    ],
)
def test_mentions(body: str, content: dict[str, Any], meant: bool, text: str) -> None:
    one = heard(event(body, content=content))
    assert (one.mentioned, one.text) == (meant, text)


def test_an_answer_to_us_means_us_and_is_quoted() -> None:
    about = {"m.relates_to": {"m.in_reply_to": {"event_id": "$0"}}}
    quote = MessageQuote("$0", ME, "before")
    one = heard(
        event("> <@pal:e.x> before\n> more\n\nwhy?", content=about), msgspec.structs.replace(GROUP, quote=quote)
    )
    assert (one.text, one.mentioned, one.quote) == ("why?", True, quote)
    other = heard(event("why?", content=about), msgspec.structs.replace(GROUP, quote=MessageQuote("$0", ANN, "x")))
    assert not other.mentioned


def test_threads() -> None:
    about = {"rel_type": "m.thread", "event_id": "$root", "is_falling_back": True, "m.in_reply_to": {"event_id": "$9"}}
    told = event(content={"m.relates_to": about})
    assert words.find_thread_root(told) == "$root" and words.find_answered_event(told) == ""
    assert heard(told).target.thread == "$root"
    assert words.find_answered_event(event(content={"m.relates_to": {**about, "is_falling_back": False}})) == "$9"


def test_notices_are_of_programs_and_emotes_say_who() -> None:
    assert heard(event(content={"msgtype": "m.notice"})).sender.bot
    assert heard(event("waves", content={"msgtype": "m.emote"})).text == "* Ann waves"


@pytest.mark.parametrize(
    ("body", "text"),
    [("!status", "/status"), ("!approve 1 x", "/approve 1 x"), ("!what", "!what"), ("! status", "! status")],
)
def test_commands_begin_with_an_exclamation_mark(body: str, text: str) -> None:
    assert heard(event(body)).text == text


def test_files_and_what_is_said_with_them() -> None:
    bare = parse_message(event("a.png", content={"msgtype": "m.image", "url": "mxc://e.x/1"}), "!r", GROUP)
    said = parse_message(event("look", content={"msgtype": "m.image", "filename": "a.png"}), "!r", GROUP)
    assert bare is not None and said is not None
    assert (bare.inbound.text, said.inbound.text) == ("", "look")
    assert [one.name for one in (*bare.files, *said.files)] == ["a.png", "a.png"]
    assert not bare.files[0].voice
    voice = {"msgtype": "m.audio", "org.matrix.msc3245.voice": {}, "file": {"url": "mxc://e.x/2"}, "url": "mxc://e.x/2"}
    spoken = parse_message(event("v.ogg", content=voice), "!r", GROUP)
    assert spoken is not None and spoken.files == (
        RemoteFile("v.ogg", "", {"url": "mxc://e.x/2"}, voice=True),
    )  # encrypted: its address comes with the key


def member(who: str, how: str, before: str = "") -> dict[str, Any]:
    aside = {"unsigned": {"prev_content": {"membership": before}}} if before else {}
    return {"type": "m.room.member", "state_key": who, "content": {"membership": how}, **aside}


def test_what_was_said_before_we_were_asked_in_is_not_for_us() -> None:
    old, new, late = event("old"), event("while invited"), event("later")
    timeline = [old, member(ME, "invite"), new, member(ME, "join", "invite"), late]
    assert select_since_joined(timeline, ME) == ([new, member(ME, "join", "invite"), late], True)
    assert select_since_joined([old, member(ME, "join"), late], ME) == ([late], True)
    assert select_since_joined([old, member(ME, "join", "join"), late], ME) == (
        [old, member(ME, "join", "join"), late],
        False,
    )
    assert select_since_joined([old, member(ANN, "join")], ME) == ([old, member(ANN, "join")], False)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
KEYS = ("msgtype", "body", "m.relates_to", "m.mentions", "formatted_body", "filename", "url", "info", "file")


@given(st.dictionaries(st.sampled_from(KEYS), JSON | st.sampled_from(["m.text", "m.image", ME])), JSON, JSON)
def test_no_event_breaks_it(content: dict[str, Any], at: Any, unsigned: Any) -> None:
    told = {**event(), "content": {"msgtype": "m.text", **content}, "origin_server_ts": at, "unsigned": unsigned}
    found = parse_message(told, "!r", GROUP)
    assert found is None or isinstance(found.inbound.text, str)
    select_since_joined([told, {**told, "type": "m.room.member", "state_key": ME}], ME)


@given(st.text(), st.text(max_size=10))
def test_any_text_can_be_read(text: str, called: str) -> None:
    strip_quotation(text)
    strip_mention(text, ME, called)
