"""A message of the client -> what is handed in. Pure.

Who writes is the JID without its device part; WhatsApp vouches for the phone number beside it. The event holds sender
and id, because ids are the senders' own. Edits, reactions, broadcasts and status posts are left alone.
"""

from __future__ import annotations

import re

from palinurus.channels.whatsapp.port import WhatsAppMessage
from palinurus.core.types.inbound import Inbound, MessageQuote, Sender, Target

PHONE = "@s.whatsapp.net"
GROUP = "@g.us"
_FOREIGN = ("@broadcast", "@newsletter")


def parse_message(came: WhatsAppMessage, me: frozenset[str], account: str) -> Inbound | None:
    """The message; None for what nobody says to us."""
    if came.mine or came.sender in me or came.chat.endswith(_FOREIGN) or not (came.text.strip() or came.media):
        return None
    text, named = _unnamed(came.text, came.mentions, me)
    quoted = came.quoted
    answered = quoted is not None and (not quoted.sender or quoted.sender in me)
    return Inbound(
        Target("whatsapp", came.chat if came.group else came.sender, account),
        Sender(came.sender, came.name, also=(*came.also, *_number(came.sender))),
        make_event_name(came.sender, came.id),
        text,
        came.at,
        "group" if came.group else "direct",
        reply_to=make_event_name("" if answered else quoted.sender, quoted.id) if quoted else "",
        mentioned=named or answered or text.startswith("/"),
        quote=MessageQuote(quoted.id, "" if answered else quoted.sender, quoted.text) if quoted else None,
    )


def make_event_name(sender: str, ident: str) -> str:
    """How we name a message: WhatsApp needs its sender too, wherever it is meant. Ours are the bare id."""
    return f"{sender}/{ident}" if sender else ident


def split_event_name(name: str) -> tuple[str, str]:
    """(sender, id) of a message's name; the sender of our own is ""."""
    sender, _, ident = name.rpartition("/")
    return sender, ident


def _number(jid: str) -> tuple[str, ...]:
    """As people write it in a config: +491701234567."""
    return (f"+{jid.removesuffix(PHONE)}",) if jid.endswith(PHONE) else ()


def _unnamed(text: str, mentions: tuple[str, ...], me: frozenset[str]) -> tuple[str, bool]:
    """Without our own name, and whether it was there. WhatsApp writes @ and the number into the text."""
    ours = [one.partition("@")[0] for one in mentions if one in me]
    for user in ours:
        text = re.sub(rf"@{re.escape(user)}\b[ \t]?", "", text)
    return text.strip(), bool(ours)
