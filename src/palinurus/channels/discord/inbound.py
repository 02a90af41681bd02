"""Discord's messages and interactions (their JSON) -> `Inbound`. Pure: fetches nothing, keeps nothing.

Edits, reactions, joins and other events of the platform are not messages: they are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from palinurus.channels.intake import RemoteFile
from palinurus.core.types.inbound import Inbound, MessageQuote, Sender, Target
from palinurus.patterns import compile_late

EPOCH = 1_420_070_400_000  # Discord's ids count milliseconds from here, above 22 bits
TYPES = (0, 19)  # a message, and one that answers another; the rest is the platform talking
THREADS = (10, 11, 12)
VOICE = 1 << 13  # the flag of a message spoken into the phone
COMMAND, COMPONENT = 2, 3  # kinds of interactions

_MENTION = compile_late(r"<@!?(\d{1,20})>")
_ODD = compile_late(r"[^\w .'-]")
_ROLE = compile_late(r"<@&(\d{1,20})>")


class DiscordIdentity(msgspec.Struct, frozen=True):
    """Who we are there: our user, and the roles that stand for us in its servers."""

    id: str = ""
    name: str = ""
    roles: frozenset[str] = frozenset()
    account: str = "default"


class DiscordChat(msgspec.Struct, frozen=True):
    """Where a message was written. `parent` is set for threads only."""

    parent: str = ""
    title: str = ""


def read_id_time(ident: str | int) -> int:
    """When an id was made, in milliseconds since 1970."""
    return (int(ident) >> 22) + EPOCH


def make_lowest_id(millis: int) -> int:
    """The lowest id of a moment."""
    return max(millis - EPOCH, 0) << 22


def parse_chat(raw: Mapping[str, Any]) -> DiscordChat:
    """Of a channel, as Discord describes it."""
    parent = str(raw.get("parent_id") or "") if raw.get("type") in THREADS else ""
    return DiscordChat(parent, str(raw.get("name") or ""))


def parse_message(raw: Mapping[str, Any], me: DiscordIdentity, where: DiscordChat) -> Inbound | None:
    """What a person (or another bot) wrote, without its files; None for our own and for what is no message."""
    author = raw["author"]
    if raw.get("type", 0) not in TYPES or author["id"] == me.id:
        return None
    guild = str(raw.get("guild_id") or "")
    named = bool(guild) and is_addressed(raw, me)
    text = read_text(raw, me) or ("[mentioned you]" if named and not list_attachments(raw) else "")
    if not text and not list_attachments(raw):  # a poll, an embed, or what Discord does not let us read
        return None
    answered = raw.get("referenced_message") or None
    source = "forwarded" if raw.get("message_snapshots") else ""
    quote = _quote(answered) if answered else None
    return _inbound(raw, me, where, text, mentioned=not guild or named, quote=quote, source=source)


def parse_interaction(raw: Mapping[str, Any], me: DiscordIdentity, where: DiscordChat, text: str) -> Inbound:
    """A pressed button or a native command, as a message of whoever did it."""
    pressed = str((raw.get("message") or {}).get("id") or "") if raw["type"] == COMPONENT else ""
    return _inbound(raw, me, where, text, mentioned=True, pressed=pressed)


def _inbound(raw: Mapping[str, Any], me: DiscordIdentity, where: DiscordChat, text: str, **more: Any) -> Inbound:
    """What messages and interactions tell in the same way."""
    member, guild, channel = raw.get("member") or {}, str(raw.get("guild_id") or ""), str(raw["channel_id"])
    user = raw.get("author") or raw.get("user") or member["user"]
    place = (where.parent, me.account, channel) if where.parent else (channel, me.account)
    return Inbound(
        Target("discord", *place),
        Sender(str(user["id"]), _name(user, member), bot=bool(user.get("bot") or raw.get("webhook_id"))),
        str(raw["id"]),
        text,
        at=read_id_time(raw["id"]),
        kind="channel" if guild else "direct",
        guild=guild,
        roles=tuple(str(role) for role in member.get("roles") or ()),
        title=where.title if guild else "",
        **more,
    )


def read_command_text(raw: Mapping[str, Any]) -> str:
    """The text a native command stands for."""
    data = raw["data"]
    values = [str(option["value"]) for option in data.get("options") or () if "value" in option]
    return " ".join((f"/{data['name']}", *values))


def is_addressed(raw: Mapping[str, Any], me: DiscordIdentity) -> bool:
    """Were we named (ourselves, or our role) or answered? "@everyone" names nobody."""
    named = any(user["id"] == me.id for user in raw.get("mentions") or ())
    role = any(str(role) in me.roles for role in raw.get("mention_roles") or ())
    answered = raw.get("referenced_message") or {}
    return named or role or (answered.get("author") or {}).get("id") == me.id


def read_text(raw: Mapping[str, Any], me: DiscordIdentity) -> str:
    """What can be read, our own name cut out, other names readable; what was forwarded is said to be that."""
    # a name is chosen by whoever has it: inside somebody else's message it must not look like a command
    names = {str(user["id"]): _ODD.sub("", _name(user, {}))[:32] for user in raw.get("mentions") or ()}

    def named(match: re.Match[str]) -> str:
        return "" if match[1] == me.id else f"@{names[match[1]]}" if match[1] in names else match[0]

    text = _MENTION.sub(named, str(raw.get("content") or ""))
    text = _ROLE.sub(lambda match: "" if match[1] in me.roles else match[0], text)
    parts = [text.strip()]
    for snapshot in raw.get("message_snapshots") or ():
        inner = snapshot.get("message") or {}
        parts.append("[forwarded]\n" + "\n".join((str(inner.get("content") or ""), *_stickers(inner))).strip())
    parts += _stickers(raw)
    return "\n".join(part for part in parts if part)


def list_attachments(raw: Mapping[str, Any]) -> list[RemoteFile]:
    """The files of a message, and of those it forwards."""
    inner = [snapshot.get("message") or {} for snapshot in raw.get("message_snapshots") or ()]
    return [found for one in (raw, *inner) for found in _files(one)]


def to_history_rows(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Messages as the act `ReadAction` answers with them; Discord lists the newest first."""
    told = [(row["id"], _name(row["author"], {}), str(row.get("content") or "")) for row in rows]
    return [{"id": ident, "from": who, "text": text, "at": read_id_time(ident)} for ident, who, text in told[::-1]]


def _files(raw: Mapping[str, Any]) -> list[RemoteFile]:
    voice = bool(int(raw.get("flags") or 0) & VOICE)
    told = [(str(one["filename"]), str(one.get("content_type") or ""), one) for one in raw.get("attachments") or ()]
    return [RemoteFile(name, mime, str(one["url"]), int(one["size"]), voice=voice) for name, mime, one in told]


def _stickers(raw: Mapping[str, Any]) -> list[str]:
    return [f"[sticker: {one.get('name', '')}]" for one in raw.get("sticker_items") or ()]


def _name(user: Mapping[str, Any], member: Mapping[str, Any]) -> str:
    return str(member.get("nick") or user.get("global_name") or user.get("username") or "")


def _quote(raw: Mapping[str, Any]) -> MessageQuote:
    return MessageQuote(str(raw["id"]), _name(raw["author"], {}), str(raw.get("content") or "")[:2000])
