"""Stanzas of messages, rooms, archives and uploads: read and written. Pure."""

from __future__ import annotations

import re
from datetime import datetime
from xml.etree import ElementTree
from xml.sax.saxutils import escape, quoteattr

import msgspec

from palinurus.channels.intake import InboundWithFiles, RemoteFile
from palinurus.channels.xmpp.wire import XmlElement
from palinurus.core.types.channel import SendFailure, SendTrouble
from palinurus.core.types.inbound import Inbound, Sender, Target
from palinurus.patterns import compile_late

CLIENT = "jabber:client"
MAM, RSM, FORWARD = "urn:xmpp:mam:2", "http://jabber.org/protocol/rsm", "urn:xmpp:forward:0"
IDS, DELAY, FIX = "urn:xmpp:sid:0", "urn:xmpp:delay", "urn:xmpp:message-correct:0"
STATES, RECEIPTS, OOB = "http://jabber.org/protocol/chatstates", "urn:xmpp:receipts", "jabber:x:oob"
MUC, UPLOAD, PING = "http://jabber.org/protocol/muc", "urn:xmpp:http:upload:0", "urn:xmpp:ping"
DISCO = "http://jabber.org/protocol/disco"
_ILLEGAL = compile_late("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_FILE_NAME = compile_late(r"[^/?#]+(?=[?#]|$)")

# What a server says about a message that it sends back.
TROUBLES: dict[str, SendTrouble] = {
    "item-not-found": "gone",
    "remote-server-not-found": "gone",
    "gone": "gone",
    "not-acceptable": "gone",  # a room we are not in
    "service-unavailable": "gone",  # no such account
    "recipient-unavailable": "gone",
    "forbidden": "blocked",
    "not-allowed": "blocked",
    "not-authorized": "blocked",
    "policy-violation": "long",
    "resource-constraint": "limited",
    "remote-server-timeout": "down",
    "internal-server-error": "down",
}


class XmppContext(msgspec.Struct, frozen=True):
    """What a message does not say itself."""

    me: str  # our bare address
    account: str
    nick: str  # ours in rooms
    rooms: frozenset[str]
    now: int


def get_bare(jid: str) -> str:
    return jid.partition("/")[0].lower()


def write_text(text: str) -> str:
    """As a stanza may hold it: other characters would end the stream."""
    return escape(_ILLEGAL.sub("", text))


def build_message(to: str, text: str, ident: str, *, group: bool = False, instead: str = "", address: str = "") -> str:
    """`instead`: the message whose place it takes (XEP-0308). `address` is a file's."""
    more = f"<replace xmlns='{FIX}' id={quoteattr(instead)}/>" if instead else ""
    more += f"<x xmlns='{OOB}'><url>{write_text(address)}</url></x>" if address else ""
    kind = "groupchat" if group else "chat"
    asked = "" if group else f"<request xmlns='{RECEIPTS}'/>"
    return (
        f"<message type='{kind}' to={quoteattr(to)} id={quoteattr(ident)}><body>{write_text(text)}</body>{more}"
        f"<origin-id xmlns='{IDS}' id={quoteattr(ident)}/><active xmlns='{STATES}'/>{asked}</message>"
    )


def build_query(kind: str, to: str, ident: str, inside: str) -> str:
    target = f" to={quoteattr(to)}" if to else ""
    return f"<iq type='{kind}'{target} id={quoteattr(ident)}>{inside}</iq>"


def build_archive_query(
    *, after: str | None = None, person: str = "", before: str | None = None, most: int = 50
) -> str:
    """What an archive (XEP-0313) holds: after an id; or the last page, or the one before an id."""
    form = f"<field var='FORM_TYPE' type='hidden'><value>{MAM}</value></field>"
    form += f"<field var='with'><value>{write_text(person)}</value></field>" if person else ""
    page = f"<after>{write_text(after)}</after>" if after else ""
    page += f"<before>{write_text(before)}</before>" if before is not None else ""
    return (
        f"<query xmlns='{MAM}'><x xmlns='jabber:x:data' type='submit'>{form}</x>"
        f"<set xmlns='{RSM}'><max>{most}</max>{page}</set></query>"
    )


def unwrap_archived(stanza: XmlElement) -> tuple[str, XmlElement] | None:
    """The id and the message of a page's line; None for anything else."""
    result = stanza.find(f"{{{MAM}}}result")
    inner = None if result is None else result.find(f"{{{FORWARD}}}forwarded/{{{CLIENT}}}message")
    if result is None or inner is None:
        return None
    delay = result.find(f"{{{FORWARD}}}forwarded/{{{DELAY}}}delay")
    if delay is not None and inner.find(f"{{{DELAY}}}delay") is None:
        inner.append(delay)
    return str(result.get("id") or ""), inner


def find_archive_id(message: XmlElement, archive: str) -> str:
    """The id that this archive gave to it (XEP-0359). Ids that others claim to have given count for nothing."""
    found = [one for one in message.iter(f"{{{IDS}}}stanza-id") if get_bare(str(one.get("by"))) == archive]
    return str(found[0].get("id") or "") if found else ""


def is_message(message: XmlElement) -> bool:
    """Was something said in it? Corrections, receipts, states and errors are no messages."""
    kind = message.get("type") or "normal"
    spoken = message.find(f"{{{CLIENT}}}body") is not None and message.find(f"{{{FIX}}}replace") is None
    return message.tag == f"{{{CLIENT}}}message" and kind in ("chat", "normal", "groupchat") and spoken


def parse_message(message: XmlElement, event: str, around: XmppContext, known: str = "") -> InboundWithFiles | None:
    """None for one that is no message to us. `event` is its id in the archive; `known` is the real address of who wrote
    in a room, where the room tells."""
    sender, body = str(message.get("from") or ""), message.findtext(f"{{{CLIENT}}}body") or ""
    bare, _, nick = sender.partition("/")
    bare, group = bare.lower(), message.get("type") == "groupchat"
    if (
        not is_message(message)
        or not sender
        or (group and (not nick or nick == around.nick or bare not in around.rooms))
    ):
        return None
    if not group and (bare == around.me or bare in around.rooms):  # private messages in rooms: nobody knows from whom
        return None
    address = message.findtext(f"{{{OOB}}}x/{{{OOB}}}url") or ""
    text = "" if address and body.strip() == address else body
    named = group and re.search(rf"(?<!\w){re.escape(around.nick)}(?!\w)", text, re.IGNORECASE) is not None
    if named:
        text = re.sub(rf"^\s*@?{re.escape(around.nick)}\s*[:,]?\s*", "", text, count=1, flags=re.IGNORECASE)
    inbound = Inbound(
        Target("xmpp", bare, around.account),
        Sender((known or f"{bare}/{nick}") if group else bare, nick if group else ""),
        event or f"{sender} {message.get('id')}",
        text.strip(),
        at=read_time(message) or around.now,
        kind="group" if group else "direct",
        mentioned=named or not group,
        title=bare if group else "",
    )
    name = _FILE_NAME.search(address.rpartition("/")[2]) if address else None
    files = (RemoteFile(name[0] if name else "file", "", address),) if address else ()
    return InboundWithFiles(inbound, files)


def read_time(message: XmlElement) -> int:
    """When it was said, in milliseconds; 0 if it does not say."""
    delay = message.find(f"{{{DELAY}}}delay")
    try:
        return int(datetime.fromisoformat(str(delay.get("stamp"))).timestamp() * 1000) if delay is not None else 0
    except ValueError:
        return 0


def explain_xmpp_error(stanza: XmlElement) -> SendFailure:
    """What a stanza that came back as an error says."""
    error = stanza.find(f"{{{CLIENT}}}error")
    names = [one.tag.rpartition("}")[2] for one in error] if error is not None else []
    name = next((one for one in names if one in TROUBLES), names[0] if names else "unknown")
    text = next((one.text for one in error or () if one.tag.endswith("}text") and one.text), "")
    trouble = TROUBLES.get(name, "refused")
    return SendFailure(
        f"the server says {name}{f': {text[:200]}' if text else ''}", trouble, 10.0 if trouble == "limited" else None
    )


def parse_stanza(text: str) -> XmlElement:
    """For fakes. Raises ParseError."""
    return ElementTree.fromstring(text)
