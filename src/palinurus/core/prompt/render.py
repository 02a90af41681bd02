"""Facts -> Prompt. Pure; the same facts give the same bytes."""

from __future__ import annotations

from palinurus.core.prompt.facts import Facts
from palinurus.core.prompt.order import STABLE, VOLATILE, Row
from palinurus.core.types.model import Prompt


def render(facts: Facts) -> Prompt:
    """The prompt in its two parts; the cache boundary lies between them."""
    return Prompt(_join(STABLE, facts), _join(VOLATILE, facts))


def _join(rows: tuple[Row, ...], facts: Facts) -> str:
    texts = (make(facts) for _, make, modes in rows if facts.mode in modes)
    return "\n\n".join(text for text in texts if text)
