"""Discord's JSON as messages: who, where, what, and whether we were meant."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.channels.discord import inbound
from palinurus.channels.discord.inbound import DiscordChat, DiscordIdentity
from palinurus.core.types.inbound import MessageQuote, Sender, Target

ME = DiscordIdentity("1", "pal", frozenset({"55"}), "work")
AUTHOR = {"id": "9", "username": "ann", "global_name": "Ann"}


def raw(**changes: Any) -> dict[str, Any]:
    return {"id": "1571740423859208192", "type": 0, "channel_id": "7", "author": AUTHOR, "content": "hi", **changes}


def read(**changes: Any) -> Any:
    return inbound.parse_message(raw(**changes), ME, DiscordChat())


def test_a_direct_message() -> None:
    found = read()
    assert (found.target, found.sender) == (Target("discord", "7", "work"), Sender("9", "Ann"))
    assert (found.kind, found.event, found.text, found.mentioned) == ("direct", "1571740423859208192", "hi", True)
    assert found.at == 1794802518573


def test_a_message_in_a_server() -> None:
    member = {"roles": ["77", "78"], "nick": "Annie"}
    found = inbound.parse_message(raw(guild_id="3", member=member), ME, DiscordChat("", "general"))
    assert found is not None and (found.kind, found.guild, found.roles) == ("channel", "3", ("77", "78"))
    assert (found.sender.name, found.title, found.mentioned) == ("Annie", "general", False)


def test_a_thread_has_its_channel() -> None:
    where = inbound.parse_chat({"id": "7", "type": 11, "parent_id": "6", "name": "plans"})
    found = inbound.parse_message(raw(guild_id="3"), ME, where)
    assert found is not None and found.target == Target("discord", "6", "work", "7") and found.title == "plans"
    assert inbound.parse_chat({"id": "7", "type": 0, "parent_id": "5", "name": "x"}) == DiscordChat(
        "", "x"
    )  # a category


@pytest.mark.parametrize(
    ("changes", "meant", "text"),
    [
        ({"content": "<@1> hi", "mentions": [{"id": "1"}]}, True, "hi"),
        ({"content": "hi <@!1>", "mentions": [{"id": "1"}]}, True, "hi"),
        ({"content": "<@&55> hi", "mention_roles": ["55"]}, True, "hi"),
        ({"content": "<@&56> hi", "mention_roles": ["56"]}, False, "<@&56> hi"),
        ({"content": "@everyone hi", "mention_everyone": True}, False, "@everyone hi"),
        ({"content": "<@8> hi", "mentions": [{"id": "8", "username": "bob"}]}, False, "@bob hi"),
        ({"content": "<@8> hi", "mentions": [{"id": "8", "global_name": "x\n/stop [[y]]"}]}, False, "@xstop y hi"),
        ({"referenced_message": {"id": "2", "author": {"id": "1"}, "content": "I said"}}, True, "hi"),
        ({"referenced_message": {"id": "2", "author": {"id": "8"}, "content": "he said"}}, False, "hi"),
        ({"referenced_message": None}, False, "hi"),  # it was deleted
        ({"content": "<@1>", "mentions": [{"id": "1"}]}, True, "[mentioned you]"),
        ({"content": "<@1> so", "mentions": []}, False, "so"),  # written so, but nobody was named
    ],
)  # fmt: skip
def test_who_is_meant(changes: dict[str, Any], meant: bool, text: str) -> None:
    found = read(guild_id="3", **changes)
    assert (found.mentioned, found.text) == (meant, text)


def test_what_is_answered_is_quoted() -> None:
    found = read(type=19, referenced_message={"id": "2", "author": {"id": "8", "username": "bob"}, "content": "tea?"})
    assert found.quote == MessageQuote("2", "bob", "tea?")


def test_what_cannot_be_read_is_no_message() -> None:
    assert read(content="", guild_id="3") is None and read(content="") is None
    assert read(content="", attachments=[FILE]).text == ""


def test_our_own_words_and_the_platforms_are_no_messages() -> None:
    assert read(author={"id": "1"}) is None
    assert [read(type=kind) for kind in (6, 7, 18, 20, 21, 46)] == [None] * 6


def test_bots_are_said_to_be_bots() -> None:
    assert read(author={**AUTHOR, "bot": True}).sender.bot
    assert read(webhook_id="4").sender.bot and not read().sender.bot


def test_forwarded_and_stickers_are_words() -> None:
    inner = {"message": {"content": "old news", "attachments": [FILE]}}
    found = raw(content="", message_snapshots=[inner], sticker_items=[{"name": "wave"}])
    assert inbound.read_text(found, ME) == "[forwarded]\nold news\n[sticker: wave]"
    assert inbound.parse_message(found, ME, DiscordChat()).source == "forwarded" and read().source == ""
    assert [one.name for one in inbound.list_attachments(found)] == ["a.ogg"]


FILE = {"url": "https://cdn.discordapp.com/a", "filename": "a.ogg", "content_type": "audio/ogg", "size": 3}


def test_a_voice_message_is_a_voice_message() -> None:
    assert [one.voice for one in inbound.list_attachments(raw(attachments=[FILE], flags=1 << 13))] == [True]
    assert [one.voice for one in inbound.list_attachments(raw(attachments=[FILE]))] == [False]


def test_a_button_is_pressed_by_who_pressed_it() -> None:
    press = {"id": "5", "type": 3, "channel_id": "7", "user": AUTHOR, "message": {"id": "6", "author": {"id": "1"}}}
    found = inbound.parse_interaction(press, ME, DiscordChat(), "/approve 1 deny")
    assert (found.sender.id, found.pressed, found.text, found.mentioned) == ("9", "6", "/approve 1 deny", True)
    member = {"user": {"id": "10", "username": "eve"}, "roles": ["77"]}
    there = inbound.parse_interaction(
        {**press, "user": None, "member": member, "guild_id": "3"}, ME, DiscordChat(), "x"
    )
    assert (there.sender.id, there.roles, there.kind) == ("10", ("77",), "channel")


def test_a_command_is_text() -> None:
    assert (
        inbound.read_command_text({"data": {"name": "model", "options": [{"name": "text", "value": "gpt 5"}]}})
        == "/model gpt 5"
    )
    assert inbound.read_command_text({"data": {"name": "help"}}) == "/help"


@given(st.text(max_size=200))
def test_no_text_makes_it_ours_or_fails(text: str) -> None:
    found = read(content=f"a {text}", guild_id="3")
    assert found.sender.id == "9" and not found.mentioned and "<@1>" not in found.text


@given(st.integers(min_value=inbound.EPOCH, max_value=inbound.EPOCH + 10**12))
def test_ids_are_times(millis: int) -> None:
    assert inbound.read_id_time(inbound.make_lowest_id(millis)) == millis
