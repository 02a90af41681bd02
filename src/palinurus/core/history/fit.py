"""From what a transcript holds to what a request carries: mended, limited, shortened, pruned, few images. Pure.

Each step leaves a valid history valid, and leaves alone what it has nothing to say about: unchanged messages stay the
same objects. Only the request is changed, never the file.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from palinurus.core.history import images, truncate
from palinurus.core.history.limit import keep_turns, steps
from palinurus.core.history.prune import Pruning, prune
from palinurus.core.types.messages import Message


class Rules(msgspec.Struct, frozen=True):
    """What a session and its model allow."""

    window: int  # tokens
    turns: int | None = None  # of the user; None or 0: all
    result_chars: int = truncate.USUAL
    pruning: Pruning = Pruning()
    images: images.Budget | None = images.Budget()  # None: a model without eyes, whose codec leaves images out


def fitted(messages: Sequence[Message], rules: Rules, pinned: int = 0, now: int | None = None) -> tuple[Message, ...]:
    """What to send of a valid history. The first `pinned` messages are never dropped. `now` is the time stamp of the
    message that will follow; None if the history is sent as it stands.
    """
    kept = keep_turns(messages, rules.turns, pinned, steps(rules.turns))
    kept = truncate.results(kept, rules.result_chars)
    # Pruning and images each decide by what the other has not touched yet, else one could undo what the other did.
    border = images.border(kept, rules.images) if rules.images else 0
    return images.fade(prune(kept, rules.pruning, rules.window, now), border)
