"""One message of the model as people get it: without reasoning, marks and the silence token. The whole text at
once; `live` does the same while it comes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from palinurus.core.stream.marks import UNMARKED, Found, Marks, remote
from palinurus.core.stream.silent import audible, silent
from palinurus.core.stream.tags import split
from palinurus.core.types.messages import Assistant, Message

GAP = "\n\n"  # between the texts of two messages


class Answer(msgspec.Struct, frozen=True):
    """`silent`: the model chose to say nothing. `thinking` is what stood in tags."""

    text: str
    thinking: str = ""
    found: Found = UNMARKED
    silent: bool = False


def answer(
    text: str,
    *,
    enforce: bool = False,
    allowed: Callable[[str], bool] = remote,
) -> Answer:
    """Read one message's text. `enforce`: only what stands in <final> counts."""
    visible, thinking = split(text, enforce=enforce)
    if "[" in visible or "MEDIA:" in visible:
        marks = Marks(allowed)
        visible = f"{marks.feed(visible)}{marks.close()}".strip()
        found = marks.found
    else:
        found = UNMARKED
    quiet = silent(visible)
    return Answer("" if quiet else audible(visible).strip(), thinking, found, quiet)


def spoken(messages: Iterable[Message], *, enforce: bool = False) -> str:
    """All that people see of a run's messages, in order; "" for a chosen silence."""
    answers = [answer(m.text, enforce=enforce) for m in messages if isinstance(m, Assistant) and m.text.strip()]
    if answers and answers[-1].silent:
        return ""
    return GAP.join(a.text for a in answers if a.text)
