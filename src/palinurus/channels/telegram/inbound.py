"""A Telegram update -> what was said, by whom, where. Pure: files are only named here, `channel.py` fetches them.

Ids are Telegram's numbers as texts, never @names. Edited messages, reactions and service messages say nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from telegram import CallbackQuery, Chat, Message, MessageEntity, MessageOrigin, Update, User

from palinurus.channels.intake import InboundWithFiles, RemoteFile
from palinurus.core.types.inbound import ChatKind, Inbound, MessageQuote, Sender, Target

UPDATE_KINDS = ("message", "channel_post", "callback_query")  # the kinds of updates we ask Telegram for
QUOTED = 1000  # characters of a quoted message
# Raised for what is no update of Telegram's.
PARSE_ERRORS = (AttributeError, KeyError, TypeError, ValueError, OverflowError)

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


def parse_update(update: Update, me: TelegramIdentity) -> TelegramInbound | None:
    """What a person said, or None if the update says nothing to us."""
    if update.callback_query is not None:
        return _pressed(update.callback_query, me)
    message = update.message or update.channel_post
    return _said(message, me) if message is not None else None


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


def find_migration(update: Update) -> tuple[str, str] | None:
    """(old id, new id) of a group that became a supergroup."""
    message = update.message
    if message is None:
        return None
    if message.migrate_to_chat_id:
        return str(message.chat.id), str(message.migrate_to_chat_id)
    if message.migrate_from_chat_id:
        return str(message.migrate_from_chat_id), str(message.chat.id)
    return None


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


def _pressed(query: CallbackQuery, me: TelegramIdentity) -> TelegramInbound | None:
    message = query.message
    if message is None or not query.data:  # a button of an inline message or a game: none of ours
        return None
    thread = message.message_thread_id if isinstance(message, Message) and message.is_topic_message else None
    inbound = Inbound(
        _target(message.chat, me, thread),
        _person(query.from_user),
        f"press/{query.id}",
        "",
        at=int(message.date.timestamp() * 1000),
        kind=_KINDS.get(message.chat.type, "group"),
        mentioned=True,
        pressed=str(message.message_id),
        title=message.chat.title or "",
    )
    return TelegramInbound(inbound, data=query.data, query=query.id)


def _said(message: Message, me: TelegramIdentity) -> TelegramInbound | None:
    sender = _sender(message)
    if sender is None or sender.id == str(me.id):
        return None
    text, meant = _text(message, me)
    files, bare = _files(message), not text
    if bare:
        text = _described(message, files)
    if not text and not meant:
        return None
    if message.forward_origin is not None:  # others' words: never a command of who passes them on
        text = f"[forwarded from {_origin(message.forward_origin)}]\n{text}"
    answered = _answered(message)
    thread = message.message_thread_id if message.is_topic_message else None
    inbound = Inbound(
        _target(message.chat, me, thread),
        sender,
        f"{message.chat.id}:{message.message_id}",
        text or "[mentioned you]",
        at=int(message.date.timestamp() * 1000),
        kind=_KINDS.get(message.chat.type, "group"),
        reply_to=str(answered.message_id) if answered is not None else "",
        mentioned=meant or _ours(answered, me),
        title=message.chat.title or "",
        quote=_quote(message, answered),
        source="forwarded" if message.forward_origin is not None else "",
    )
    return TelegramInbound(inbound, files, bare=bare)


def _target(chat: Chat, me: TelegramIdentity, thread: int | None) -> Target:
    return Target("telegram", str(chat.id), me.account, str(thread) if thread else "")


def _person(user: User) -> Sender:
    return Sender(str(user.id), user.full_name, bot=user.is_bot)


def _sender(message: Message) -> Sender | None:
    """Who wrote. Anonymous admins and channels write as a chat: the user beside it is one that all of them share."""
    if message.sender_chat is not None:
        return Sender(str(message.sender_chat.id), message.sender_chat.title or "")
    return _person(message.from_user) if message.from_user is not None else None


def _answered(message: Message) -> Message | None:
    """The message that this one answers. In a topic Telegram names the topic's beginning when there is none."""
    answered = message.reply_to_message
    return None if answered is None or answered.forum_topic_created is not None else answered


def _ours(answered: Message | None, me: TelegramIdentity) -> bool:
    return answered is not None and answered.from_user is not None and answered.from_user.id == me.id


def _text(message: Message, me: TelegramIdentity) -> tuple[str, bool]:
    """The text without the mentions of ourselves, and whether there was one (or a command for us)."""
    text = message.text or message.caption or ""
    entities = message.entities or message.caption_entities
    raw = text.encode("utf-16-le", "surrogatepass")  # Telegram counts in UTF-16 units
    name, meant = f"@{me.username}".lower(), False
    for entity in sorted(entities, key=lambda e: e.offset, reverse=True):
        start, end = entity.offset * 2, (entity.offset + entity.length) * 2
        part = raw[start:end].decode("utf-16-le", "replace")
        if entity.type == MessageEntity.BOT_COMMAND and entity.offset == 0:
            command, at, whom = part.partition("@")
            if at and f"@{whom}".lower() != name:
                continue  # for another bot
            ours = me.commands.get(command[1:].lower(), command[1:])
            raw, meant = f"/{ours}".encode("utf-16-le") + raw[end:], True
        elif (entity.type == MessageEntity.MENTION and part.lower() == name) or (
            entity.type == MessageEntity.TEXT_MENTION and entity.user is not None and entity.user.id == me.id
        ):
            raw, meant = _without(raw, start, end), True
    return raw.decode("utf-16-le", "replace").strip(), meant


def _without(raw: bytes, start: int, end: int) -> bytes:
    """One of the two blanks around what is cut out goes with it."""
    blank = " ".encode("utf-16-le")
    if raw[end : end + 2] == blank and (start == 0 or raw[start - 2 : start] == blank):
        end += 2
    return raw[:start] + raw[end:]


def _files(message: Message) -> tuple[RemoteFile, ...]:
    if message.photo:
        largest = message.photo[-1]
        return (RemoteFile("photo.jpg", "image/jpeg", largest.file_id, largest.file_size or 0),)
    if message.voice:
        told = message.voice
        return (RemoteFile("voice.ogg", told.mime_type or "audio/ogg", told.file_id, told.file_size or 0, voice=True),)
    if message.video_note:
        note = message.video_note
        return (RemoteFile("video-note.mp4", "video/mp4", note.file_id, note.file_size or 0),)
    for found, name, mime in (
        (message.animation, "animation.mp4", "video/mp4"),  # before documents: an animation is both
        (message.document, "document", "application/octet-stream"),
        (message.audio, "audio.mp3", "audio/mpeg"),
        (message.video, "video.mp4", "video/mp4"),
    ):
        if found:
            return (RemoteFile(found.file_name or name, found.mime_type or mime, found.file_id, found.file_size or 0),)
    return ()


def _described(message: Message, files: tuple[RemoteFile, ...]) -> str:
    """Words for a message that has none."""
    if files:
        return "[voice note]" if files[0].voice else f"[file: {files[0].name}]"
    if message.sticker:
        return f"[sticker {message.sticker.emoji or ''}".rstrip() + "]"
    if message.venue:
        place = message.venue
        return f"[place: {place.title}, {place.address} ({place.location.latitude}, {place.location.longitude})]"
    if message.location:
        return f"[location: {message.location.latitude}, {message.location.longitude}]"
    if message.contact:
        name = " ".join(filter(None, (message.contact.first_name, message.contact.last_name)))
        return f"[contact: {name}, {message.contact.phone_number}]"
    if message.poll:
        return f"[poll: {message.poll.question} ({'; '.join(o.text for o in message.poll.options)})]"
    if message.dice:
        return f"[{message.dice.emoji} {message.dice.value}]"
    return ""


def _quote(message: Message, answered: Message | None) -> MessageQuote | None:
    if answered is None:
        return None
    chosen = message.quote.text if message.quote is not None else answered.text or answered.caption
    who = _sender(answered)
    text = (chosen or _described(answered, _files(answered)))[:QUOTED]
    return MessageQuote(str(answered.message_id), who.name if who is not None else "", text)


def _origin(origin: MessageOrigin) -> str:
    user, chat = getattr(origin, "sender_user", None), getattr(origin, "sender_chat", None)
    chat = chat or getattr(origin, "chat", None)
    shown = user.full_name if user else chat.title if chat else getattr(origin, "sender_user_name", "")
    return str(shown or "somebody").replace("\n", " ")[:80]
