"""From what a transcript holds to what a request carries: mended, limited, shortened, pruned, few images. Pure.

Each step leaves a valid history valid, and leaves alone what it has nothing to say about: unchanged messages stay the
same objects. Only the request is changed, never the file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from palinurus.core.history import images, truncate
from palinurus.core.history.prune import PruningRules, prune_results
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


class HistoryLimits(msgspec.Struct, frozen=True):
    """What a session and its model allow."""

    window: int  # tokens
    turns: int | None = None  # of the user; None or 0: all
    result_chars: int = truncate.USUAL_RESULT_CHARS
    pruning: PruningRules = PruningRules()
    images: images.Budget | None = images.Budget()  # None: a model without eyes, whose codec leaves images out


def fit_history(
    messages: Sequence[Message], rules: HistoryLimits, pinned: int = 0, now: int | None = None
) -> tuple[Message, ...]:
    """What to send of a valid history. The first `pinned` messages are never dropped. `now` is the time stamp of the
    message that will follow; None if the history is sent as it stands.
    """
    kept = keep_turns(messages, rules.turns, pinned, choose_turn_step(rules.turns))
    kept = truncate.shorten_results(kept, rules.result_chars)
    # Pruning and images each decide by what the other has not touched yet, else one could undo what the other did.
    border = images.find_image_border(kept, rules.images) if rules.images else 0
    return images.fade_images(prune_results(kept, rules.pruning, rules.window, now), border)
