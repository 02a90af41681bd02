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
    made = plain(text, enforce=enforce, allowed=allowed)
    quiet = silent(made.text)
    return msgspec.structs.replace(made, text="" if quiet else audible(made.text).strip(), silent=quiet)


def plain(text: str, *, enforce: bool = False, allowed: Callable[[str], bool] = remote) -> Answer:
    """As `answer`, but the tokens of silence and of heartbeats still stand where they stood."""
    visible, thinking = split(text, enforce=enforce)
    if "[" not in visible and "MEDIA:" not in visible:
        return Answer(visible, thinking)
    marks = Marks(allowed)
    visible = f"{marks.feed(visible)}{marks.close()}".strip()
    return Answer(visible, thinking, marks.found)


def spoken(messages: Iterable[Message], *, enforce: bool = False) -> str:
    """All that people see of a run's messages, in order; "" for a chosen silence."""
    answers = [answer(m.text, enforce=enforce) for m in messages if isinstance(m, Assistant) and m.text.strip()]
    if answers and answers[-1].silent:
        return ""
    return GAP.join(a.text for a in answers if a.text)
