"""What signal-cli received -> `Inbound`. Pure; files are named here and fetched by the channel.

Identity is the account's uuid (ACI); its phone number stands beside it when the envelope has it. Left out: edits,
reactions, deletions, stories, calls, receipts, polls, group changes, and what our own other devices sent.
"""

from __future__ import annotations

from typing import Any

import msgspec

from palinurus.channels.intake import InboundWithFiles, RemoteFile
from palinurus.core.types.inbound import Inbound, MessageQuote, Sender, Target


class SignalIdentity(msgspec.Struct, frozen=True):
    """Our own account; the uuid is "" until we know it."""

    number: str
    uuid: str = ""

    def matches(self, number: Any, uuid: Any) -> bool:
        """Is that us?"""
        return bool((self.uuid and uuid == self.uuid) or (self.number and number == self.number))


def parse_event(params: dict[str, Any], me: SignalIdentity, account: str) -> InboundWithFiles | None:
    """The message in an event; None for everything else."""
    params = _dict(params.get("result")) or params  # a subscription wraps it
    envelope = _dict(params.get("envelope"))
    data = _dict(envelope.get("dataMessage"))
    uuid, number = _text(envelope.get("sourceUuid")), _text(envelope.get("sourceNumber"))
    ours = params.get("account")
    other = bool(me.number and ours and ours != me.number)
    if not data or other or not (uuid or number) or me.matches(number, uuid) or _aside(data):
        return None
    stamp = data.get("timestamp") or envelope.get("timestamp")
    if not isinstance(stamp, int):
        return None
    text, mentioned = _mentions(_text(data.get("message")), _list(data.get("mentions")), me)
    files = tuple(_file(one, stamp) for one in _list(data.get("attachments")) if _text(one.get("id")))
    if not text.strip() and not files and not mentioned:
        return None
    group = _dict(data.get("groupInfo"))
    ident = _text(group.get("groupId"))
    quote, to_us = _quote(_dict(data.get("quote")), me)
    inbound = Inbound(
        Target("signal", ident or uuid or number, account),
        Sender(uuid or number, _text(envelope.get("sourceName"))[:200], also=(number,) if uuid and number else ()),
        f"{uuid or number}:{stamp}",
        text,
        at=stamp,
        kind="group" if ident else "direct",
        reply_to=quote.id if quote else "",
        mentioned=mentioned or to_us,
        title=_text(group.get("groupName"))[:200],
        quote=quote,
    )
    return InboundWithFiles(inbound, files)


def _aside(data: dict[str, Any]) -> bool:
    """Something that is not said to anybody."""
    update = _dict(data.get("groupInfo")).get("type") == "UPDATE" and not data.get("message")
    return update or any(data.get(key) for key in ("reaction", "remoteDelete", "isExpirationUpdate", "storyContext"))


def _mentions(text: str, mentions: list[dict[str, Any]], me: SignalIdentity) -> tuple[str, bool]:
    """The text with names where the holes were, ours cut out; and whether we were named. Offsets are UTF-16 units."""
    units = text.encode("utf-16-le", "surrogatepass")
    ours = False
    spans = [(m, m.get("start"), m.get("length")) for m in mentions]
    good = [(s, n, m) for m, s, n in spans if isinstance(s, int) and isinstance(n, int) and 0 <= 2 * s < len(units)]
    for start, length, mention in sorted(good, key=lambda one: -one[0]):
        mine = me.matches(mention.get("number"), mention.get("uuid"))
        ours = ours or mine
        name = _text(mention.get("name")) or _text(mention.get("number")) or _text(mention.get("uuid"))
        put = "" if mine else f"@{name[:80]}"
        units = units[: 2 * start] + put.encode("utf-16-le", "replace") + units[2 * (start + max(length, 0)) :]
    return units.decode("utf-16-le", "replace").strip(), ours


def _quote(quote: dict[str, Any], me: SignalIdentity) -> tuple[MessageQuote | None, bool]:
    if not isinstance(quote.get("id"), int):
        return None, False
    author = _text(quote.get("authorUuid")) or _text(quote.get("authorNumber"))
    mine = me.matches(quote.get("authorNumber"), quote.get("authorUuid"))
    ident = str(quote["id"]) if mine else f"{author}:{quote['id']}"
    return MessageQuote(ident, "" if mine else author, _text(quote.get("text"))), mine


def _file(one: dict[str, Any], stamp: int) -> RemoteFile:
    mime, name = _text(one.get("contentType")), _text(one.get("filename"))
    size = one.get("size")
    # A phone's own recordings have no name; songs that people send do.
    voice = mime.startswith("audio/") and not name
    known = size if isinstance(size, int) else 0
    return RemoteFile(name or f"signal-{stamp}", mime, _text(one.get("id")), known, voice=voice)


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
