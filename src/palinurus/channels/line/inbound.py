"""LINE's webhook events -> messages. Pure: names and titles were looked up before.

Only `message` events say something; follows, joins, unsends and postbacks are none. Without a sender's id (a member of
a group who has agreed to nothing) nobody can be asked whether he may speak: such a message is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import msgspec

from palinurus.channels.intake import InboundWithFiles, RemoteFile
from palinurus.channels.web.api import read_mapping, read_rows
from palinurus.core.types.inbound import ChatKind, Inbound, MessageQuote, Sender, Target

CONTENT = "/v2/bot/message/{}/content"
# What a file without a name is called, and its type.
_FILES: dict[str, tuple[str, str]] = {
    "image": ("image.jpg", "image/jpeg"), "video": ("video.mp4", "video/mp4"), "audio": ("audio.m4a", "audio/mp4"),
    "file": ("file", ""),
}  # fmt: skip


class LineEvent(msgspec.Struct, frozen=True):
    """One message event, with the ids that the platform gives its parts."""

    user: str
    chat: str  # where answers go: the person, the group or the room
    kind: ChatKind
    token: str  # for one answer that counts towards no quota; "" where it cannot be used
    raw: Mapping[str, Any]

    @property
    def message(self) -> Mapping[str, Any]:
        return read_mapping(self.raw.get("message"))


class LineContext(msgspec.Struct, frozen=True):
    """What the event does not say itself. `ours`: ids of messages that we sent."""

    account: str
    data: str  # where files are
    name: str = ""
    title: str = ""
    ours: Collection[str] = ()


def find_events(body: Mapping[str, Any]) -> list[LineEvent]:
    """The messages among the events. What another module of the account handles ("standby") is not ours."""
    found = []
    for raw in read_rows(body.get("events")):
        source = read_mapping(raw.get("source"))
        user = str(source.get("userId") or "")
        chat = str(source.get("groupId") or source.get("roomId") or user)
        said = read_mapping(raw.get("message"))
        if raw.get("type") != "message" or raw.get("mode") == "standby" or not user or not said.get("id"):
            continue
        again = read_mapping(raw.get("deliveryContext")).get("isRedelivery") is True
        token = "" if again else str(raw.get("replyToken") or "")
        found.append(LineEvent(user, chat, "direct" if chat == user else "group", token, raw=raw))
    return found


def parse_event(event: LineEvent, around: LineContext) -> InboundWithFiles:
    """What was said. The message's id is the event: LINE tells it again with the same one."""
    said = event.message
    text, named = _words(said)
    quoted = str(said.get("quotedMessageId") or "")
    ident, at = str(said["id"]), event.raw.get("timestamp")
    inbound = Inbound(
        Target("line", event.chat, around.account),
        Sender(event.user, around.name),
        ident,
        text,
        at=at if isinstance(at, int) else 0,
        kind=event.kind,
        reply_to=quoted,
        mentioned=event.kind == "direct" or named or quoted in around.ours,
        title=around.title,
        quote=MessageQuote(quoted) if quoted else None,
    )
    kind = str(said.get("type") or "")
    return InboundWithFiles(inbound, (_file(said, kind, around.data),) if kind in _FILES else ())


def _words(said: Mapping[str, Any]) -> tuple[str, bool]:
    """The text without our own mentions, and whether there was one."""
    write = _KINDS.get(str(said.get("type") or ""))
    if write is not None:
        return write(said), False
    # Positions count UTF-16 units.
    units = str(said.get("text") or "").encode("utf-16-le", "surrogatepass")
    named = False
    marks = read_rows(read_mapping(said.get("mention")).get("mentionees"))
    spots = [(one.get("index"), one.get("length")) for one in marks if one.get("isSelf") is True]
    for index, length in sorted((i, n) for i, n in spots if isinstance(i, int) and isinstance(n, int))[::-1]:
        units, named = units[: max(index, 0) * 2] + units[max(index + length, 0) * 2 :], True
    text = units.decode("utf-16-le", "replace")
    return text.strip() if named else text, named


def _place(said: Mapping[str, Any]) -> str:
    parts = (said.get("title"), said.get("address"), f"({said.get('latitude')}, {said.get('longitude')})")
    return f"[location: {', '.join(str(one) for one in parts if one)}]"


def _sticker(said: Mapping[str, Any]) -> str:
    words = said.get("keywords")
    told = ", ".join(map(str, words[:3])) if isinstance(words, list) else str(said.get("text") or "")
    return f"[sticker {told}".rstrip() + "]"


_KINDS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "location": _place,
    "sticker": _sticker,
    **dict.fromkeys(_FILES, lambda said: ""),
}


def _file(said: Mapping[str, Any], kind: str, data: str) -> RemoteFile:
    name, mime = _FILES[kind]
    provider = read_mapping(said.get("contentProvider"))
    elsewhere = str(provider.get("originalContentUrl") or "") if provider.get("type") == "external" else ""
    source = elsewhere or data + CONTENT.format(said["id"])
    size = said.get("fileSize")
    shown = str(said.get("fileName") or name)
    return RemoteFile(shown, mime, source, size if isinstance(size, int) else 0, voice=kind == "audio")
