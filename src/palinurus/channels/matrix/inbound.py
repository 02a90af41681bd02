"""Matrix events -> messages. Pure: what stands around an event (members, the message it answers) was looked up.

Edits by people (m.replace), reactions, redactions and our own events are no messages. A notice is a program's, as the
specification asks of programs. "!name" is the same as "/name", which most clients keep for themselves.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from palinurus.channels.intake import InboundWithFiles, RemoteFile
from palinurus.core.types.inbound import ChatKind, Inbound, MessageQuote, Sender, Target

FILES = ("m.image", "m.file", "m.audio", "m.video")
TEXTS = ("m.text", "m.emote", "m.notice", "m.location")
_END = r"(?!\w|-|\.\w|:\d)"  # after an id: no further letters, no longer server name, no port
_VOICE = ("org.matrix.msc3245.voice", "m.voice")


class MatrixContext(msgspec.Struct, frozen=True):
    """What the event does not say itself."""

    me: str
    account: str
    kind: ChatKind
    title: str = ""
    name: str = ""  # of who wrote
    called: str = ""  # our own name in this room
    quote: MessageQuote | None = None
    commands: Collection[str] = ()


def read_content(event: Mapping[str, Any]) -> Mapping[str, Any]:
    found = event.get("content")
    return found if isinstance(found, Mapping) else {}


def read_relation(event: Mapping[str, Any]) -> Mapping[str, Any]:
    found = read_content(event).get("m.relates_to")
    return found if isinstance(found, Mapping) else {}


def find_thread_root(event: Mapping[str, Any]) -> str:
    """The root of the thread it stands in; "" outside of threads."""
    about = read_relation(event)
    return str(about.get("event_id") or "") if about.get("rel_type") == "m.thread" else ""


def find_answered_event(event: Mapping[str, Any]) -> str:
    """The event it answers; "" if none. In a thread clients name the last message without answering it."""
    about = read_relation(event)
    if about.get("rel_type") == "m.thread" and about.get("is_falling_back"):
        return ""
    told = about.get("m.in_reply_to")
    return str(told.get("event_id") or "") if isinstance(told, Mapping) else ""


def is_message(event: Mapping[str, Any], me: str) -> bool:
    """Did somebody else say something in it?"""
    kind = read_content(event).get("msgtype")
    return (
        event.get("type") == "m.room.message"
        and event.get("sender") != me
        and isinstance(event.get("sender"), str)
        and isinstance(event.get("event_id"), str)
        and kind in (*TEXTS, *FILES)
        and read_relation(event).get("rel_type") != "m.replace"
    )


def parse_message(event: Mapping[str, Any], room: str, around: MatrixContext) -> InboundWithFiles | None:
    """None for an event that is no message to us."""
    if not is_message(event, around.me):
        return None
    held, sender = read_content(event), str(event["sender"])
    kind = str(held["msgtype"])
    text = read_caption(held) if kind in FILES else str(held.get("body") or "")
    if find_answered_event(event):
        text = strip_quotation(text)
    named = is_mentioned(held, around.me)
    if named:
        text = strip_mention(text, around.me, around.called)
    if kind == "m.emote":
        text = f"* {around.name or sender} {text}"
    at = event.get("origin_server_ts")
    inbound = Inbound(
        Target("matrix", room, around.account, find_thread_root(event)),
        Sender(sender, around.name, bot=kind == "m.notice"),
        str(event["event_id"]),
        normalize_command(text.strip(), around.commands),
        at=at if isinstance(at, int) else 0,
        kind=around.kind,
        mentioned=named or around.kind == "direct" or (around.quote is not None and around.quote.sender == around.me),
        title=around.title,
        quote=around.quote if find_answered_event(event) else None,
    )
    return InboundWithFiles(inbound, (_file(held),) if kind in FILES else ())


def read_caption(held: Mapping[str, Any]) -> str:
    """What is said with a file: its body, where that is not the file's name."""
    body, name = str(held.get("body") or ""), held.get("filename")
    return body if isinstance(name, str) and name != body else ""


def _file(held: Mapping[str, Any]) -> RemoteFile:
    """In an encrypted room its source is the address together with the key."""
    info, sealed = held.get("info"), held.get("file")
    return RemoteFile(
        str(held.get("filename") or held.get("body") or "file"),
        str(info.get("mimetype") or "") if isinstance(info, Mapping) else "",
        sealed if isinstance(sealed, Mapping) else str(held.get("url") or ""),
        voice=any(key in held for key in _VOICE),
    )


def is_mentioned(held: Mapping[str, Any], me: str) -> bool:
    """By the list of the mentioned, by a pill, or by the whole id in the text."""
    listed = held.get("m.mentions")
    if isinstance(listed, Mapping) and isinstance(listed.get("user_ids"), list) and me in listed["user_ids"]:
        return True
    rich, body = str(held.get("formatted_body") or ""), str(held.get("body") or "")
    escaped = me.replace("@", "%40").replace(":", "%3A")
    pill = any(f"matrix.to/#/{form}{end}" in rich for form in (me, escaped) for end in ('"', "'", "?"))
    return pill or re.search(rf"(?<![\w@]){re.escape(me)}{_END}", body) is not None


def strip_mention(text: str, me: str, called: str) -> str:
    """The text without the mention of ourselves: our id anywhere, our name at the beginning."""
    text = re.sub(rf"(?<![\w@]){re.escape(me)}{_END}\s*[:,]?\s*", "", text)
    names = [name for name in (called, me[1:].partition(":")[0]) if name]
    first = "|".join(re.escape(name) for name in names)
    return re.sub(rf"^\s*@?(?:{first})(?!\w)\s*[:,]?\s*", "", text, count=1, flags=re.IGNORECASE)


def strip_quotation(text: str) -> str:
    """The text without the quotation that older clients write before an answer."""
    lines = text.split("\n")
    count = 0
    while count < len(lines) and lines[count].startswith(">"):
        count += 1
    if count and count < len(lines) and not lines[count].strip():
        count += 1
    return "\n".join(lines[count:]) if count else text


def normalize_command(text: str, commands: Collection[str]) -> str:
    word = text.partition(" ")[0]
    return f"/{text[1:]}" if word.startswith("!") and word[1:].lower() in commands else text


def make_quote(event: Mapping[str, Any]) -> MessageQuote:
    """A message as the one that is answered."""
    body = str(read_content(event).get("body") or "")
    return MessageQuote(str(event.get("event_id") or ""), str(event.get("sender") or ""), strip_quotation(body)[:2000])


def select_since_joined(timeline: list[Mapping[str, Any]], me: str) -> tuple[list[Mapping[str, Any]], bool]:
    """The events since we were asked in, and whether that is among them: what was said before is not for us.
    (People write while they invite; that is.)"""
    start, found = 0, False
    for number, event in enumerate(timeline):
        if event.get("type") != "m.room.member" or event.get("state_key") != me:
            continue
        now = read_content(event).get("membership")
        aside = event.get("unsigned")
        old = aside.get("prev_content") if isinstance(aside, Mapping) else None
        before = old.get("membership") if isinstance(old, Mapping) else None
        if now == "invite" or (now == "join" and before not in ("join", "invite")):
            start, found = number + 1, True
    return list(timeline[start:]), found
