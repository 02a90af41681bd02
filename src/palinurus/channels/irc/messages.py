"""A line of IRC -> `Inbound`; a reply -> lines; and what a server's numbers mean for a reply. Pure.

Identity is the services account where the server tells it (account-tag); else nick!user@host, which others may come to
hold. A nick alone is never an identity. Left out: notices, CTCP (but for /me), servers, services, and ourselves.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime

import msgspec

from palinurus.channels.irc.wire import MAX_LINE_BYTES, IrcLine, fold_name, split_text, strip_formatting
from palinurus.core.format.render import render_markdown
from palinurus.core.types.channel import SendFailure, SendTrouble
from palinurus.core.types.inbound import Inbound, Sender, Target
from palinurus.core.types.outbound import Reply
from palinurus.patterns import compile_late

LIMIT = 350  # bytes of one message: what is left of 512 with long names on both sides
WAIT = 10.0  # seconds, when the server only says "later"
_HOST = 75  # bytes of user and host, while we do not know ours

# Numbers that answer a message. The parameter after our nick names whom it was for.
TROUBLES: dict[str, SendTrouble] = {
    "263": "limited",  # try again
    "401": "gone",  # no such nick
    "403": "gone",  # no such channel
    "404": "blocked",  # banned, moderated, or only members may speak
    "407": "refused",
    "411": "refused",
    "412": "refused",
    "417": "long",
    "439": "limited",  # target change too fast
    "442": "gone",  # not on that channel
    "477": "blocked",  # only those who are logged in may speak
    "486": "blocked",
    "531": "blocked",
    "716": "blocked",  # takes no messages from strangers
}


def split_reply(reply: Reply, prefix: int) -> list[str]:
    """The messages of a reply. `prefix` is the length of what the server puts before each."""
    text = reply.text if reply.plain else render_markdown(reply.text, "irc").text
    addresses = [one for one in reply.media if one.startswith(("http://", "https://"))]
    return split_text("\n".join([text, *addresses]), max(MAX_LINE_BYTES - prefix, 100))


def measure_prefix(mask: str, nick: str, to: str) -> int:
    """Bytes of `:nick!user@host PRIVMSG to :`. `mask` is ours as the server last said it, "" if not yet."""
    own = len(mask.encode()) if mask else len(nick) + 1 + _HOST
    return own + len(f":  PRIVMSG {to} :".encode())


def explain_irc_refusal(line: IrcLine) -> SendFailure | None:
    """What a line says went wrong with a message; None if it says nothing of the kind."""
    if line.command == "FAIL" and line.get(0) in ("PRIVMSG", "*"):
        return SendFailure(f"IRC: {line.get(-1)[:200]}", "refused")
    word = TROUBLES.get(line.command)
    if word is None:
        return None
    reason = f"IRC: {line.get(-1)[:200] or line.command}"
    return SendFailure(reason, word, WAIT, True) if word == "limited" else SendFailure(reason, word)


SERVICES = frozenset("nickserv chanserv memoserv operserv botserv hostserv saslserv helpserv global statserv".split())
ROOM_PREFIXES = ("#", "&", "+", "!")
_STATUS = compile_late(r"^[~&@%+]+(?=[#&])")  # said to those who have a rank in a room


class IrcContext(msgspec.Struct, frozen=True):
    """What the connection knows: our nick, who is logged in (nick -> account), how names are compared."""

    nick: str
    account: str = "default"  # of the config
    mapping: str = "rfc1459"
    logins: Mapping[str, str] = {}


def parse_message(line: IrcLine, here: IrcContext, fallback: str, now: int) -> Inbound | None:
    """The message in a PRIVMSG. `fallback` is its id where the server gives none."""
    if line.command != "PRIVMSG" or len(line.params) != 2 or not is_from_person(line, here):
        return None
    where, said = line.params
    text = _action(said, line.nick)
    if text is None:
        return None
    room = _STATUS.sub("", where)
    group = room.startswith(ROOM_PREFIXES)
    bare = strip_formatting(text).strip()
    text, mentioned = _mention(bare, here) if group else (bare, False)
    if not text and not mentioned:
        return None
    at = parse_server_time(line.tags.get("time", "")) or now
    return Inbound(
        Target("irc", fold_name(room, here.mapping) if group else line.source, here.account),
        read_sender(line, here),
        line.tags.get("msgid") or fallback,
        text,
        at=at,
        kind="group" if group else "direct",
        mentioned=mentioned,
        title=room if group else "",
    )


def is_from_person(line: IrcLine, here: IrcContext) -> bool:
    """Not a server, not a service, not us."""
    if "!" not in line.source:
        return False
    low = fold_name(line.nick, here.mapping)
    return low != fold_name(here.nick, here.mapping) and low not in SERVICES and not low.startswith("*")


def read_sender(line: IrcLine, here: IrcContext) -> Sender:
    """Who wrote. The tag of the line itself goes before what we remember."""
    account = line.tags.get("account") or here.logins.get(fold_name(line.nick, here.mapping), "")
    bot = "bot" in line.tags or "draft/bot" in line.tags
    if account:
        return Sender(account, line.nick, bot=bot, also=(line.source,))
    return Sender(line.source, line.nick, bot=bot)


def _action(text: str, nick: str) -> str | None:
    """CTCP is for programs and left out; /me is something a person says."""
    if not text.startswith("\x01"):
        return text
    kind, _, rest = text.strip("\x01").partition(" ")
    return f"* {nick} {rest}" if kind == "ACTION" and rest else None


def _mention(text: str, here: IrcContext) -> tuple[str, bool]:
    """Without our name at its begin; and whether we are named anywhere."""
    low, nick = fold_name(text, here.mapping), re.escape(fold_name(here.nick, here.mapping))
    head = re.match(rf"@?{nick}(?:[:,]+\s*|\s+|$)", low)
    if head:
        return text[head.end() :], True
    return text, re.search(rf"(?<![\w-]){nick}(?![\w-])", low) is not None


def parse_server_time(text: str) -> int:
    """Milliseconds of a server-time; 0 if it is none."""
    try:
        return int(datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1000) if text else 0
    except ValueError:
        return 0
