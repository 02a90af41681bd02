"""All languages in which promises are noticed."""

from __future__ import annotations

from functools import cache

from palinurus.core.tongues.english import build_english
from palinurus.core.tongues.french import build_french
from palinurus.core.tongues.german import build_german
from palinurus.core.tongues.italian import build_italian
from palinurus.core.tongues.portuguese import build_portuguese
from palinurus.core.tongues.row import PromiseLanguage
from palinurus.core.tongues.spanish import build_spanish


@cache
def list_languages() -> tuple[PromiseLanguage, ...]:
    """Every language's row, in the order in which they are asked."""
    return (build_english(), build_german(), build_spanish(), build_french(), build_portuguese(), build_italian())
