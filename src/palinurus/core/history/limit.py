"""How much of a history is sent: the last so many turns of the user, by kind of session, channel and person. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from palinurus.core.types.keys import SessionKey
from palinurus.core.types.messages import Message, UserMessage


class TurnLimits(msgspec.Struct, frozen=True):
    """channels.<id>: historyLimit (groups), dmHistoryLimit, dms.<peer>.historyLimit. None or 0: all."""

    group: int | None = None
    direct: int | None = None
    people: Mapping[str, int] = {}  # by peer id, lower case


def find_turn_limit(
    key: SessionKey, by_channel: Mapping[str, TurnLimits], channel: str = "", peer: str = ""
) -> int | None:
    """How many turns a session may send; None for all. A person's own limit goes before the channel's.

    The key says which channel and person a session is of; where it does not (the main session, direct chats that
    channels share), `channel` and `peer` of the message do.
    """
    parts = key.rest.split(":")
    if key.kind == "group":
        found = by_channel.get(parts[0])
        return (found.group or None) if found else None
    if key.kind not in ("main", "direct"):
        return None
    if "direct" in parts:
        at = parts.index("direct")
        channel = parts[0] if at else channel
        peer = ":".join(parts[at + 1 :]).partition(":thread:")[0].partition(":topic:")[0]
    found = by_channel.get(channel)
    if found is None:
        return None
    own = found.people.get(peer.lower())
    return (found.direct if own is None else own) or None


def count_turns(messages: Sequence[Message]) -> int:
    """How many user messages there are."""
    return sum(isinstance(m, UserMessage) for m in messages)


def choose_turn_step(count: int | None) -> int:
    """How many turns go at once under a limit: the beginning, and with it the prompt cache, then holds for a while."""
    return max(1, (count or 0) // 4)


def keep_turns(messages: Sequence[Message], count: int | None, pinned: int = 0, step: int = 1) -> tuple[Message, ...]:
    """At most the last `count` user messages and everything after the first of them; None or 0 keeps all.

    With a `step`, so many turns go at once and as few as `count` - `step` + 1 are left. The first `pinned` messages
    stay: the summary of what came before. A valid history stays valid: the cut is never between a call and its result.
    """
    given = tuple(messages)
    if not count or count < 0:
        return given
    users = [at for at in range(pinned, len(given)) if isinstance(given[at], UserMessage)]
    if len(users) <= count:
        return given
    gone = -(-(len(users) - count) // step) * step
    return given[:pinned] + given[users[gone] :]
