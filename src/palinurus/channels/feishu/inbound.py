"""Feishu's events -> messages. Pure: names and titles were looked up before.

Only `im.message.receive_v1` says something. Where a message is part of a topic (`thread_id`), the topic is known by its
first message: that is what can be answered to (`root_id`, of the first one itself its own id).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from palinurus.channels.intake import InboundWithFiles, RemoteFile
from palinurus.channels.kit import decode_object
from palinurus.channels.web.api import read_mapping, read_rows
from palinurus.core.types.inbound import ChatKind, Inbound, MessageQuote, Sender, Target

RECEIVED = "im.message.receive_v1"
_KINDS: dict[str, ChatKind] = {"p2p": "direct", "group": "group", "topic_group": "group"}
# Types with a file: the key it is under, what it is asked for as, its name where there is none, its type.
_FILES: dict[str, tuple[str, str, str, str]] = {
    "image": ("image_key", "image", "image.png", "image/png"), "file": ("file_key", "file", "file", ""),
    "audio": ("file_key", "file", "voice.opus", "audio/ogg"), "media": ("file_key", "file", "video.mp4", "video/mp4"),
}  # fmt: skip


class FeishuContext(msgspec.Struct, frozen=True):
    """What an event does not say itself. `me`: our own open_id; `base`: where files are."""

    account: str
    base: str
    me: str
    name: str = ""
    title: str = ""


class FeishuMessage(msgspec.Struct, frozen=True):
    """One message as Feishu tells it, with the ids of its parts."""

    ident: str
    chat: str
    kind: ChatKind
    sender: Mapping[str, Any]
    raw: Mapping[str, Any]

    @property
    def person(self) -> Mapping[str, Any]:
        return read_mapping(self.sender.get("sender_id"))


def find_message(told: Mapping[str, Any]) -> FeishuMessage | None:
    """The message of an event; None if it tells of something else, or nobody knows who said it."""
    header, event = read_mapping(told.get("header")), read_mapping(told.get("event"))
    raw, sender = read_mapping(event.get("message")), read_mapping(event.get("sender"))
    ident, chat = str(raw.get("message_id") or ""), str(raw.get("chat_id") or "")
    if header.get("event_type") != RECEIVED or not ident or not chat:
        return None
    made = FeishuMessage(ident, chat, _KINDS.get(str(raw.get("chat_type")), "group"), sender=sender, raw=raw)
    return made if made.person.get("open_id") else None


def parse_message(message: FeishuMessage, around: FeishuContext) -> InboundWithFiles:
    """What was said. The message's id is the event: Feishu tells it again with the same one."""
    raw, person = message.raw, message.person
    content = decode_object(str(raw.get("content") or ""))
    kind = str(raw.get("message_type") or "")
    files = _files(message, kind, content, around.base)
    text, named = _mentions(_words(kind, content), raw, around.me)
    parent = str(raw.get("parent_id") or "")
    thread = str(raw.get("root_id") or message.ident) if raw.get("thread_id") else ""
    inbound = Inbound(
        Target("feishu", message.chat, around.account, thread if message.kind != "direct" else ""),
        Sender(
            str(person["open_id"]),
            around.name,
            bot=message.sender.get("sender_type") not in (None, "user"),
            also=tuple(str(person[key]) for key in ("user_id", "union_id") if person.get(key)),
        ),
        message.ident,
        text,
        at=_read_time(raw.get("create_time")),
        kind=message.kind,
        reply_to=parent,
        mentioned=message.kind == "direct" or named,
        title=around.title,
        quote=MessageQuote(parent) if parent else None,
    )
    return InboundWithFiles(inbound, files)


def _mentions(text: str, raw: Mapping[str, Any], me: str) -> tuple[str, bool]:
    """The text with names for its placeholders (`@_user_1`), without our own; and whether we were named."""
    named = False
    rows = [(str(one.get("key") or ""), one) for one in read_rows(raw.get("mentions"))]
    for key, one in sorted((row for row in rows if row[0]), key=lambda row: -len(row[0])):  # 10 before 1
        ours = bool(me) and read_mapping(one.get("id")).get("open_id") == me
        named = named or ours
        text = text.replace(key, "" if ours else f"@{one.get('name') or 'somebody'}")
    text = text.replace("@_all", "@all")
    return text.strip() if named else text, named


def _words(kind: str, content: Mapping[str, Any]) -> str:
    write = _WRITERS.get(kind)
    return write(content) if write is not None else f"[{kind or 'message'}]"


def _post(content: Mapping[str, Any]) -> str:
    """Rich text as Markdown."""
    lines = [f"**{content['title']}**"] if content.get("title") else []
    rows = content.get("content")
    for row in rows if isinstance(rows, list) else ():
        lines.append("".join(_element(one) for one in read_rows(row)))
    return "\n".join(lines).strip()


def _element(one: Mapping[str, Any]) -> str:
    tag, text = one.get("tag"), str(one.get("text") or "")
    if tag == "a":
        return f"[{text}]({one.get('href')})"
    if tag == "at":
        return str(one.get("user_id") or "")  # a placeholder, which `mentions` explains
    if tag == "code_block":
        return f"```{one.get('language') or ''}\n{text}\n```"
    return text


def _place(content: Mapping[str, Any]) -> str:
    return f"[location: {content.get('name') or ''} ({content.get('latitude')}, {content.get('longitude')})]"


_WRITERS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "text": lambda content: str(content.get("text") or ""),
    "post": _post,
    "location": _place,
    **dict.fromkeys(_FILES, lambda content: ""),
}


def _files(message: FeishuMessage, kind: str, content: Mapping[str, Any], base: str) -> tuple[RemoteFile, ...]:
    if kind == "post":
        rows = content.get("content")
        inside = [one for row in (rows if isinstance(rows, list) else ()) for one in read_rows(row)]
        found = [("image" if one.get("tag") == "img" else "media", one) for one in inside]
        parts = [one for one in found if one[1].get("tag") in ("img", "media")]
    else:
        parts = [(kind, content)] if kind in _FILES else []
    made = []
    for what, one in parts:
        key, asked, name, mime = _FILES[what]
        ident = str(one.get(key) or "")
        if ident.replace("_", "").replace("-", "").isalnum():  # it becomes part of an address
            url = f"{base}/open-apis/im/v1/messages/{message.ident}/resources/{ident}?type={asked}"
            made.append(RemoteFile(str(one.get("file_name") or name), mime, url, voice=what == "audio"))
    return tuple(made)


def _read_time(written: object) -> int:
    """Milliseconds, which Feishu writes as a text."""
    text = str(written or "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else 0
