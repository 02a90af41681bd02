"""A Telegram update -> what was said, by whom, where. Pure: files are only named here, `channel.py` fetches them.

Ids are Telegram's numbers as texts, never @names. Edited messages, reactions and service messages say nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from palinurus.channels.intake import InboundWithFiles, RemoteFile
from palinurus.channels.web.api import read_mapping, read_rows
from palinurus.core.types.inbound import ChatKind, Inbound, MessageQuote, Sender, Target

UPDATE_KINDS = ("message", "channel_post", "callback_query")  # the kinds of updates we ask Telegram for
QUOTED = 1000  # characters of a quoted message

Raw: TypeAlias = Mapping[str, Any]  # an object as Telegram writes it; {} where there is none
_KINDS: dict[str, ChatKind] = {"private": "direct", "group": "group", "supergroup": "group", "channel": "channel"}


class TelegramIdentity(msgspec.Struct, frozen=True):
    """The account that reads. `commands`: what Telegram's menu calls a command -> what we call it."""

    id: int
    username: str
    account: str = "default"
    commands: Mapping[str, str] = {}


class TelegramInbound(InboundWithFiles, frozen=True):
    """`data`: what the pressed button holds; its text is found by `channel.py`. `query`: to be answered to. `bare`: the
    text is ours, because there was none."""

    data: str = ""
    query: str = ""
    bare: bool = False


def parse_update(update: Raw, me: TelegramIdentity) -> TelegramInbound | None:
    """What a person said, or None if the update says nothing to us, or is none of Telegram's."""
    if "callback_query" in update:
        return _pressed(read_mapping(update["callback_query"]), me)
    message = read_mapping(update.get("message") or update.get("channel_post"))
    return _said(message, me) if _is_message(message) else None


def join_album(album: Sequence[TelegramInbound]) -> TelegramInbound:
    """Several messages that were sent as one. Its event is the last one's: if another picture of it comes after all,
    that is no repetition."""
    if len(album) == 1:
        return album[0]
    spoken = [one for one in album if not one.bare] or album
    inbound = msgspec.structs.replace(
        album[-1].inbound,
        text="\n".join(one.inbound.text for one in spoken),
        mentioned=any(one.inbound.mentioned for one in album),
        quote=album[0].inbound.quote,
    )
    return TelegramInbound(inbound, tuple(file for one in album for file in one.files))


def find_migration(update: Raw) -> tuple[str, str] | None:
    """(old id, new id) of a group that became a supergroup."""
    message = read_mapping(update.get("message"))
    here = _number(read_mapping(message.get("chat")), "id")
    new, old = _number(message, "migrate_to_chat_id"), _number(message, "migrate_from_chat_id")
    if not here or not (new or old):
        return None
    return (str(here), str(new)) if new else (str(old), str(here))


def read_message_number(ident: str) -> int:
    """Telegram's number of a message, from its id or the id of its event; 0 if it is neither."""
    last = ident.rpartition(":")[2]
    return int(last) if last.isascii() and last.isdigit() and len(last) < 16 else 0


def find_chat_id(update: dict[str, Any]) -> str:
    """Which chat an update belongs to, as far as order is concerned."""
    event: dict[str, Any] = next((update[kind] for kind in UPDATE_KINDS if isinstance(update.get(kind), dict)), {})
    place = event if "chat" in event else event.get("message")
    chat = place.get("chat") if isinstance(place, dict) else None
    return str(chat.get("id")) if isinstance(chat, dict) else ""


def group_albums(updates: list[dict[str, Any]]) -> list[tuple[str, list[dict[str, Any]]]]:
    """Updates one by one, those of an album together with its id."""
    found: list[tuple[str, list[dict[str, Any]]]] = []
    for update in updates:
        message = update.get("message")
        album = str(message.get("media_group_id") or "") if isinstance(message, dict) else ""
        if album and found and found[-1][0] == album:
            found[-1][1].append(update)
        else:
            found.append((album, [update]))
    return found


def _number(raw: Raw, key: str) -> int:
    """A number of an object; 0 if there is none."""
    found = raw.get(key)
    return found if isinstance(found, int) and not isinstance(found, bool) and abs(found) < 1 << 63 else 0


def _word(raw: Raw, key: str) -> str:
    """A text of an object; "" if there is none. Half a character is none."""
    found = raw.get(key)
    return found.encode("utf-8", "replace").decode() if isinstance(found, str) else ""


def _is_message(message: Raw) -> bool:
    return bool(_number(message, "message_id") and _number(read_mapping(message.get("chat")), "id"))


def _pressed(query: Raw, me: TelegramIdentity) -> TelegramInbound | None:
    message, who = read_mapping(query.get("message")), _person(read_mapping(query.get("from")))
    data, ident = _word(query, "data"), _word(query, "id")
    if not _is_message(message) or who is None or not data or not ident:
        return None  # a button of an inline message or a game: none of ours
    chat = read_mapping(message["chat"])
    inbound = Inbound(
        _target(message, me),
        who,
        f"press/{ident}",
        "",
        at=_number(message, "date") * 1000,
        kind=_KINDS.get(_word(chat, "type"), "group"),
        mentioned=True,
        pressed=str(message["message_id"]),
        title=_word(chat, "title"),
    )
    return TelegramInbound(inbound, data=data, query=ident)


def _said(message: Raw, me: TelegramIdentity) -> TelegramInbound | None:
    sender = _sender(message)
    if sender is None or sender.id == str(me.id):
        return None
    text, meant = _text(message, me)
    files, bare = _files(message), not text
    if bare:
        text = _described(message, files)
    if not text and not meant:
        return None
    origin = read_mapping(message.get("forward_origin"))
    if origin:  # others' words: never a command of who passes them on
        text = f"[forwarded from {_origin(origin)}]\n{text}"
    answered, chat = _answered(message), read_mapping(message["chat"])
    inbound = Inbound(
        _target(message, me),
        sender,
        f"{chat['id']}:{message['message_id']}",
        text or "[mentioned you]",
        at=_number(message, "date") * 1000,
        kind=_KINDS.get(_word(chat, "type"), "group"),
        reply_to=str(answered["message_id"]) if answered else "",
        mentioned=meant or _number(read_mapping(answered.get("from")), "id") == me.id,
        title=_word(chat, "title"),
        quote=_quote(message, answered),
        source="forwarded" if origin else "",
    )
    return TelegramInbound(inbound, files, bare=bare)


def _target(message: Raw, me: TelegramIdentity) -> Target:
    """A thread only where it is a topic: answers in other groups have its number too."""
    thread = _number(message, "message_thread_id") if message.get("is_topic_message") is True else 0
    return Target("telegram", str(message["chat"]["id"]), me.account, str(thread) if thread else "")


def _full_name(user: Raw) -> str:
    return " ".join(filter(None, (_word(user, "first_name"), _word(user, "last_name"))))


def _person(user: Raw) -> Sender | None:
    ident = _number(user, "id")
    return Sender(str(ident), _full_name(user), bot=user.get("is_bot") is True) if ident else None


def _sender(message: Raw) -> Sender | None:
    """Who wrote. Anonymous admins and channels write as a chat: the user beside it is one that all of them share."""
    chat = read_mapping(message.get("sender_chat"))
    if chat:
        return Sender(str(_number(chat, "id")), _word(chat, "title")) if _number(chat, "id") else None
    return _person(read_mapping(message.get("from")))


def _answered(message: Raw) -> Raw:
    """The message that this one answers. In a topic Telegram names the topic's beginning when there is none."""
    answered = read_mapping(message.get("reply_to_message"))
    return {} if "forum_topic_created" in answered or not _is_message(answered) else answered


def _text(message: Raw, me: TelegramIdentity) -> tuple[str, bool]:
    """The text without the mentions of ourselves, and whether there was one (or a command for us)."""
    text = _word(message, "text") or _word(message, "caption")
    entities = read_rows(message.get("entities")) or read_rows(message.get("caption_entities"))
    raw = text.encode("utf-16-le", "surrogatepass")  # Telegram counts in UTF-16 units
    name, meant = f"@{me.username}".lower(), False
    spots = ((max(_number(one, "offset"), 0), max(_number(one, "length"), 0), one) for one in entities)
    for offset, length, entity in sorted(spots, key=lambda spot: spot[0], reverse=True):
        start, end, kind = offset * 2, (offset + length) * 2, entity.get("type")
        part = raw[start:end].decode("utf-16-le", "replace")
        if kind == "bot_command" and offset == 0:
            command, at, whom = part.partition("@")
            if at and f"@{whom}".lower() != name:
                continue  # for another bot
            ours = me.commands.get(command[1:].lower(), command[1:])
            raw, meant = f"/{ours}".encode("utf-16-le", "replace") + raw[end:], True
        elif (kind == "mention" and part.lower() == name) or (
            kind == "text_mention" and _number(read_mapping(entity.get("user")), "id") == me.id
        ):
            raw, meant = _without(raw, start, end), True
    return raw.decode("utf-16-le", "replace").strip(), meant


def _without(raw: bytes, start: int, end: int) -> bytes:
    """One of the two blanks around what is cut out goes with it."""
    blank = " ".encode("utf-16-le")
    if raw[end : end + 2] == blank and (start == 0 or raw[start - 2 : start] == blank):
        end += 2
    return raw[:start] + raw[end:]


# Kinds of files: their usual name and type. An animation is a document too, so it stands before it.
_FILES: dict[str, tuple[str, str]] = {
    "voice": ("voice.ogg", "audio/ogg"), "video_note": ("video-note.mp4", "video/mp4"),
    "animation": ("animation.mp4", "video/mp4"), "document": ("document", "application/octet-stream"),
    "audio": ("audio.mp3", "audio/mpeg"), "video": ("video.mp4", "video/mp4"),
}  # fmt: skip


def _files(message: Raw) -> tuple[RemoteFile, ...]:
    sizes = read_rows(message.get("photo"))
    if sizes and _word(sizes[-1], "file_id"):
        largest = sizes[-1]
        return (RemoteFile("photo.jpg", "image/jpeg", largest["file_id"], _number(largest, "file_size")),)
    for kind, (name, mime) in _FILES.items():
        found = read_mapping(message.get(kind))
        if ident := _word(found, "file_id"):
            shown, sort = _word(found, "file_name") or name, _word(found, "mime_type") or mime
            return (RemoteFile(shown, sort, ident, _number(found, "file_size"), voice=kind == "voice"),)
    return ()


def _described(message: Raw, files: tuple[RemoteFile, ...]) -> str:
    """Words for a message that has none."""
    if files:
        return "[voice note]" if files[0].voice else f"[file: {files[0].name}]"
    for kind, describe in _DESCRIBED.items():
        if found := read_mapping(message.get(kind)):
            return describe(found)
    return ""


def _place(venue: Raw) -> str:
    where = read_mapping(venue.get("location"))
    title = f"{_word(venue, 'title')}, {_word(venue, 'address')}"
    return f"[place: {title} ({where.get('latitude')}, {where.get('longitude')})]"


def _poll(poll: Raw) -> str:
    options = "; ".join(_word(one, "text") for one in read_rows(poll.get("options")))
    return f"[poll: {_word(poll, 'question')} ({options})]"


# A place is a location too, so it stands before it.
_DESCRIBED: dict[str, Callable[[Raw], str]] = {
    "sticker": lambda one: f"[sticker {_word(one, 'emoji')}".rstrip() + "]",
    "venue": _place,
    "location": lambda one: f"[location: {one.get('latitude')}, {one.get('longitude')}]",
    "contact": lambda one: f"[contact: {_full_name(one)}, {_word(one, 'phone_number')}]",
    "poll": _poll,
    "dice": lambda one: f"[{_word(one, 'emoji')} {_number(one, 'value')}]",
}


def _quote(message: Raw, answered: Raw) -> MessageQuote | None:
    if not answered:
        return None
    chosen = _word(read_mapping(message.get("quote")), "text")
    chosen = chosen or _word(answered, "text") or _word(answered, "caption")
    who = _sender(answered)
    text = (chosen or _described(answered, _files(answered)))[:QUOTED]
    return MessageQuote(str(answered["message_id"]), who.name if who is not None else "", text)


def _origin(origin: Raw) -> str:
    user, chat = read_mapping(origin.get("sender_user")), read_mapping(origin.get("sender_chat") or origin.get("chat"))
    shown = _full_name(user) or _word(chat, "title") or _word(origin, "sender_user_name")
    return (shown or "somebody").replace("\n", " ")[:80]
