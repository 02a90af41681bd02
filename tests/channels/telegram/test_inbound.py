"""Updates as Telegram writes them -> what was said, by whom, where."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.channels.intake import RemoteFile
from palinurus.channels.telegram.inbound import (
    TelegramIdentity,
    TelegramInbound,
    find_chat_id,
    find_migration,
    group_albums,
    parse_update,
    read_message_number,
)
from palinurus.core.types.inbound import MessageQuote, Sender, Target

ME = TelegramIdentity(4242, "pal_bot", "work", {"export_session": "export-session"})
ANN = {"id": 1001, "is_bot": False, "first_name": "Ann", "last_name": "Lee"}
BOT = {"id": 4242, "is_bot": True, "first_name": "Pal", "username": "pal_bot"}
PRIVATE = {"id": 1001, "type": "private", "first_name": "Ann"}
GROUP = {"id": -1001, "type": "supergroup", "title": "Friends"}


def update(kind: str = "message", **fields: Any) -> dict[str, Any]:
    message = {"message_id": 5, "date": 1_700_000_000, "chat": PRIVATE, "from": ANN, **fields}
    return {"update_id": 1, kind: {k: v for k, v in message.items() if v is not None}}


def heard(**fields: Any) -> TelegramInbound:
    found = parse_update(update(**fields), ME)
    assert found is not None
    return found


def entity(kind: str, offset: int, length: int, **more: Any) -> list[dict[str, Any]]:
    return [{"type": kind, "offset": offset, "length": length, **more}]


def test_a_private_message() -> None:
    inbound = heard(text="hello").inbound
    assert inbound.target == Target("telegram", "1001", "work")
    assert inbound.sender == Sender("1001", "Ann Lee")
    assert (inbound.text, inbound.event, inbound.at, inbound.kind) == ("hello", "1001:5", 1_700_000_000_000, "direct")
    assert not inbound.mentioned and inbound.quote is None


def test_a_group_knows_its_name_and_whether_we_were_meant() -> None:
    inbound = heard(chat=GROUP, text="nice weather").inbound
    assert (inbound.kind, inbound.title, inbound.mentioned, inbound.event) == ("group", "Friends", False, "-1001:5")


@pytest.mark.parametrize(
    ("text", "entities", "cut"),
    [
        ("@pal_bot hi", entity("mention", 0, 8), "hi"),
        ("@PAL_bot hi", entity("mention", 0, 8), "hi"),
        ("hi @pal_bot there", entity("mention", 3, 8), "hi there"),
        ("🜂🜂 @pal_bot hi", entity("mention", 5, 8), "🜂🜂 hi"),  # Telegram counts UTF-16 units
        ("Pal, hi", entity("text_mention", 0, 3, user=BOT), ", hi"),
        ("@pal_bot", entity("mention", 0, 8), "[mentioned you]"),
    ],
)
def test_the_mention_of_ourselves_is_cut_out(text: str, entities: Any, cut: str) -> None:
    inbound = heard(chat=GROUP, text=text, entities=entities).inbound
    assert (inbound.text, inbound.mentioned) == (cut, True)


@pytest.mark.parametrize(
    ("text", "entities"),
    [
        ("@other_bot hi", entity("mention", 0, 10)),
        ("@pal_bot2 hi", entity("mention", 0, 9)),
        ("Ann, hi", entity("text_mention", 0, 3, user=ANN)),
        ("@pal_bot without an entity", []),
        ("/status@other_bot", entity("bot_command", 0, 17)),
    ],
)
def test_others_are_not_us(text: str, entities: Any) -> None:
    inbound = heard(chat=GROUP, text=text, entities=entities).inbound
    assert (inbound.text, inbound.mentioned) == (text, False)


@pytest.mark.parametrize(
    ("text", "length", "command"),
    [
        ("/status", 7, "/status"),
        ("/status@pal_bot now", 15, "/status now"),
        ("/export_session x", 15, "/export-session x"),
        ("/Export_Session x", 15, "/export-session x"),
        ("/unknown_thing", 14, "/unknown_thing"),
    ],
)
def test_commands_of_the_menu_are_ours(text: str, length: int, command: str) -> None:
    inbound = heard(chat=GROUP, text=text, entities=entity("bot_command", 0, length)).inbound
    assert (inbound.text, inbound.mentioned) == (command, True)


def test_an_answer_to_us_means_us_and_quotes() -> None:
    ours = {"message_id": 4, "date": 1, "chat": GROUP, "from": BOT, "text": "the plan " * 500}
    inbound = heard(chat=GROUP, text="why?", reply_to_message=ours).inbound
    assert inbound.mentioned and inbound.reply_to == "4"
    assert inbound.quote is not None and (inbound.quote.id, inbound.quote.sender) == ("4", "Pal")
    assert inbound.quote.text.startswith("the plan") and len(inbound.quote.text) == 1000
    theirs = {**ours, "from": ANN, "text": "long story"}
    part = {"text": "story", "position": 5}
    inbound = heard(chat=GROUP, text="which?", reply_to_message=theirs, quote=part).inbound
    assert not inbound.mentioned and inbound.quote == MessageQuote("4", "Ann Lee", "story")


def test_a_topic_is_a_thread_and_its_beginning_is_no_quote() -> None:
    opened = {"message_id": 9, "date": 1, "chat": GROUP, "from": BOT}
    opened["forum_topic_created"] = {"name": "Plans", "icon_color": 1}
    inbound = heard(chat=GROUP, text="hi", message_thread_id=9, is_topic_message=True, reply_to_message=opened).inbound
    assert inbound.target.thread == "9"
    assert not inbound.mentioned and inbound.quote is None and inbound.reply_to == ""
    # answers in a group without topics have a thread id too; it is none of ours
    assert heard(chat=GROUP, text="hi", message_thread_id=9).inbound.target.thread == ""


def test_who_writes_as_a_chat_is_that_chat() -> None:
    shared = {"id": 1087968824, "is_bot": True, "first_name": "Group", "username": "GroupAnonymousBot"}
    inbound = heard(chat=GROUP, text="hi", **{"from": shared}, sender_chat=GROUP).inbound
    assert inbound.sender == Sender("-1001", "Friends")
    channel = {"id": -1009, "type": "channel", "title": "News"}
    found = parse_update(update("channel_post", chat=channel, sender_chat=channel, text="today", **{"from": None}), ME)
    assert found is not None and (found.inbound.kind, found.inbound.sender.id) == ("channel", "-1009")


def test_bots_are_bots_and_we_never_hear_ourselves() -> None:
    other = {"id": 7, "is_bot": True, "first_name": "R2"}
    assert heard(chat=GROUP, text="beep", **{"from": other}).inbound.sender.bot
    assert parse_update(update(chat=GROUP, text="hi", **{"from": BOT}), ME) is None


def test_what_is_passed_on_is_no_command_and_not_the_senders_words() -> None:
    origin = {"type": "hidden_user", "date": 1, "sender_user_name": "Eve\nroot"}
    inbound = heard(text="/approve 1 allow-always", entities=entity("bot_command", 0, 8), forward_origin=origin).inbound
    assert inbound.text == "[forwarded from Eve root]\n/approve 1 allow-always"
    assert inbound.source == "forwarded"


FILE = {"file_id": "f", "file_unique_id": "u", "file_size": 10}


@pytest.mark.parametrize(
    ("fields", "wanted", "words"),
    [
        (
            {"photo": [{**FILE, "file_id": "small", "width": 1, "height": 1}, {**FILE, "width": 9, "height": 9}]},
            RemoteFile("photo.jpg", "image/jpeg", "f", 10),
            "[file: photo.jpg]",
        ),
        ({"voice": {**FILE, "duration": 3}}, RemoteFile("voice.ogg", "audio/ogg", "f", 10, True), "[voice note]"),
        (
            {"document": {**FILE, "file_name": "a.pdf", "mime_type": "application/pdf"}, "caption": "read"},
            RemoteFile("a.pdf", "application/pdf", "f", 10),
            "read",
        ),
        ({"audio": {**FILE, "duration": 3}}, RemoteFile("audio.mp3", "audio/mpeg", "f", 10), "[file: audio.mp3]"),
        (
            {"video": {**FILE, "duration": 3, "width": 1, "height": 1}},
            RemoteFile("video.mp4", "video/mp4", "f", 10),
            "[file: video.mp4]",
        ),
        (
            {"video_note": {**FILE, "duration": 3, "length": 1}},
            RemoteFile("video-note.mp4", "video/mp4", "f", 10),
            "[file: video-note.mp4]",
        ),
    ],
)
def test_files_are_named(fields: Any, wanted: RemoteFile, words: str) -> None:
    found = heard(**fields)
    assert found.files == (wanted,) and found.inbound.text == words


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"location": {"latitude": 52.5, "longitude": 13.4}}, "[location: 52.5, 13.4]"),
        ({"contact": {"phone_number": "+49", "first_name": "Eve"}}, "[contact: Eve, +49]"),
        ({"dice": {"emoji": "🎲", "value": 4}}, "[🎲 4]"),
        (
            {"sticker": {**FILE, "type": "regular", "width": 1, "height": 1, "is_animated": False, "is_video": False,
                         "emoji": "🦞"}},
            "[sticker 🦞]",
        ),
    ],
)  # fmt: skip
def test_what_has_no_text_is_described(fields: Any, words: str) -> None:
    assert heard(**fields).inbound.text == words


@pytest.mark.parametrize(
    "fields", [{"new_chat_members": [ANN]}, {"group_chat_created": True}, {"pinned_message": None}, {"text": ""}]
)
def test_service_messages_say_nothing(fields: Any) -> None:
    assert parse_update(update(chat=GROUP, **fields), ME) is None


def test_edits_and_reactions_say_nothing() -> None:
    assert parse_update(update("edited_message", text="better"), ME) is None
    reaction = {"chat": PRIVATE, "message_id": 5, "date": 1, "old_reaction": [], "new_reaction": [], "user": ANN}
    assert parse_update({"update_id": 1, "message_reaction": reaction}, ME) is None


def press(**more: Any) -> dict[str, Any]:
    message = {"message_id": 8, "date": 1_700_000_000, "chat": GROUP, "from": BOT, "text": "May I?", **more}
    query = {"id": "77", "from": ANN, "message": message, "chat_instance": "1", "data": "tyes"}
    return {"update_id": 1, "callback_query": query}


def test_a_press_is_of_who_pressed_where_the_button_is() -> None:
    found = parse_update(press(message_thread_id=3, is_topic_message=True), ME)
    assert found is not None and (found.data, found.query) == ("tyes", "77")
    inbound = found.inbound
    assert inbound.target == Target("telegram", "-1001", "work", "3") and inbound.sender.id == "1001"
    assert (inbound.event, inbound.pressed, inbound.mentioned) == ("press/77", "8", True)
    old = parse_update(press(date=0), ME)  # too old for Telegram to say more than its id
    assert old is not None and old.inbound.pressed == "8"


def test_a_group_that_moves() -> None:
    assert find_migration(update(chat=GROUP, migrate_to_chat_id=-2)) == ("-1001", "-2")
    assert find_migration(update(chat=GROUP, migrate_from_chat_id=-2)) == ("-2", "-1001")
    assert find_migration(update(text="hi")) is None and find_migration(press()) is None


def test_numbers_of_messages() -> None:
    assert [read_message_number(i) for i in ("5", "-1001:5", "press/77", "", "x", "-5", "9" * 40, "٣")] == [
        5,
        5,
        0,
        0,
        0,
        0,
        0,
        0,
    ]


@given(
    st.text(max_size=40),
    st.lists(st.tuples(st.sampled_from(("mention", "bot_command", "bold")), st.integers(0, 50), st.integers(1, 50))),
)
def test_no_entities_of_any_kind_break_it(text: str, entities: list[tuple[str, int, int]]) -> None:
    listed = [{"type": kind, "offset": offset, "length": length} for kind, offset, length in entities]
    found = parse_update(update(chat=GROUP, text=text, entities=listed), ME)
    assert found is None or found.inbound.text.encode()


LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
KEYS = ("message_id", "date", "chat", "from", "text", "entities", "type", "offset", "length", "photo", "file_id", "id")
KEYS += ("reply_to_message", "sender_chat", "forward_origin", "voice", "sticker", "location", "quote", "is_bot")
JUNK = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=8)
)


@given(st.sampled_from(("message", "channel_post", "callback_query", "edited_message")), JUNK)
def test_what_is_no_update_is_left_out(kind: str, junk: Any) -> None:
    raw = {"update_id": 1, kind: junk}
    assert isinstance(find_chat_id(raw), str) and len(group_albums([raw])) == 1
    find_migration(raw)
    found = parse_update(raw, ME)
    assert found is None or (found.inbound.text.encode() and found.inbound.sender.id and found.inbound.target.to)
