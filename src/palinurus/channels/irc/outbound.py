"""What a server's numbers mean for a reply, and how a reply becomes lines. Pure."""

from __future__ import annotations

from palinurus.channels.irc.line import MAX_LINE_BYTES, IrcLine, split_text
from palinurus.core.format.render import render_markdown
from palinurus.core.types.channel import SendFailure, SendTrouble
from palinurus.core.types.outbound import Reply

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
        return SendFailure(f"IRC: {line.params[-1][:200]}", "refused")
    word = TROUBLES.get(line.command)
    if word is None:
        return None
    reason = f"IRC: {line.params[-1][:200] if line.params else line.command}"
    return SendFailure(reason, word, WAIT, True) if word == "limited" else SendFailure(reason, word)
