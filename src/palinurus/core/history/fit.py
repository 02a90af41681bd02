"""From what a transcript holds to what a request carries: mended, limited, shortened, pruned, few images. Pure.

Each step leaves a valid history valid, and leaves alone what it has nothing to say about: unchanged messages stay the
same objects. Only the request is changed, never the file.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from palinurus.core.history import images, truncate
from palinurus.core.history.limit import choose_turn_step, keep_turns
from palinurus.core.history.prune import PruningRules, prune_results
from palinurus.core.types.messages import Message


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
