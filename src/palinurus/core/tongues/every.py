"""All languages in which promises are noticed."""

from __future__ import annotations

from functools import cache

from palinurus.core.tongues.english import english
from palinurus.core.tongues.french import french
from palinurus.core.tongues.german import german
from palinurus.core.tongues.italian import italian
from palinurus.core.tongues.portuguese import portuguese
from palinurus.core.tongues.row import Tongue
from palinurus.core.tongues.spanish import spanish


@cache
def tongues() -> tuple[Tongue, ...]:
    """Every language's row, in the order in which they are asked."""
    return (english(), german(), spanish(), french(), portuguese(), italian())
