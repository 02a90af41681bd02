from __future__ import annotations

import msgspec

from palinurus.channels.intake import RemoteFile
from palinurus.channels.whatsapp.messages import make_event_name, parse_message, split_event_name
from palinurus.channels.whatsapp.port import WhatsAppMessage, WhatsAppQuote

ME = frozenset(("49100@s.whatsapp.net", "900@lid"))
ANN = "49200@s.whatsapp.net"
TEXT = WhatsAppMessage("ID1", ANN, ANN, "hello", 5, ("7@lid",), "Ann")
IN_GROUP = msgspec.structs.replace(TEXT, chat="1@g.us", group=True)


def test_a_direct_message() -> None:
    found = parse_message(TEXT, ME, "work")
    assert found is not None
    assert (found.target.to, found.target.account, found.kind, found.text, found.at) == (
        ANN,
        "work",
        "direct",
        "hello",
        5,
    )
    assert (found.sender.id, found.sender.name, found.sender.also) == (ANN, "Ann", ("7@lid", "+49200"))
    assert found.event == f"{ANN}/ID1" and split_event_name(found.event) == (ANN, "ID1")


def test_in_a_group_we_are_meant_when_we_are_named_answered_or_commanded() -> None:
    plain = parse_message(IN_GROUP, ME, "default")
    assert plain is not None and plain.target.to == "1@g.us" and plain.kind == "group" and not plain.mentioned
    named = parse_message(
        msgspec.structs.replace(IN_GROUP, text="@900 and you, @901?", mentions=("900@lid",)), ME, "default"
    )
    assert named is not None and named.mentioned and named.text == "and you, @901?"
    answer = parse_message(
        msgspec.structs.replace(IN_GROUP, quoted=WhatsAppQuote("ID0", "49100@s.whatsapp.net", "before")), ME, "default"
    )
    assert answer is not None and answer.mentioned and answer.reply_to == "ID0"
    assert answer.quote is not None and (answer.quote.sender, answer.quote.text) == ("", "before")
    other = parse_message(msgspec.structs.replace(IN_GROUP, quoted=WhatsAppQuote("ID0", ANN)), ME, "default")
    assert other is not None and not other.mentioned and other.reply_to == f"{ANN}/ID0"
    command = parse_message(msgspec.structs.replace(IN_GROUP, text="/status"), ME, "default")
    assert command is not None and command.mentioned
    others = parse_message(msgspec.structs.replace(IN_GROUP, text="@901 hi", mentions=("901@lid",)), ME, "default")
    assert others is not None and not others.mentioned and others.text == "@901 hi"


def test_what_nobody_says_to_us() -> None:
    for change in (
        {"mine": True},
        {"sender": "900@lid"},
        {"chat": "status@broadcast"},
        {"chat": "1@newsletter"},
        {"text": " "},
    ):
        assert parse_message(msgspec.structs.replace(TEXT, **change), ME, "default") is None  # type: ignore[arg-type]
    assert (
        parse_message(
            msgspec.structs.replace(TEXT, text="", media=RemoteFile("a", "audio/ogg", None, 1, True)), ME, "default"
        )
        is not None
    )


def test_names_of_messages() -> None:
    assert make_event_name("", "X") == "X" and split_event_name("X") == ("", "X")


def test_what_is_passed_on_is_not_the_words_of_who_does() -> None:
    """A stranger's "/config set …" that the owner forwards was the owner's command, and its sums the owner's."""
    told = msgspec.structs.replace(IN_GROUP, group=False, text="/config set tools.taint.enabled false", forwarded=True)
    heard = parse_message(told, ME, "default")
    assert heard is not None and heard.source == "forwarded" and not heard.may_command
    assert heard.text == "[forwarded]\n/config set tools.taint.enabled false"
