"""One message of the model as people get it: without reasoning, marks and the silence token. The whole text at
once; `live` does the same while it comes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from palinurus.core.stream.marks import NO_REPLY_MARKS, MarkReader, ReplyMarks, is_web_address
from palinurus.core.stream.silent import is_silent, strip_silence
from palinurus.core.stream.tags import split_reasoning
from palinurus.core.types.messages import AssistantMessage, Message

MESSAGE_GAP = "\n\n"  # between the texts of two messages


class VisibleAnswer(msgspec.Struct, frozen=True):
    """`silent`: the model chose to say nothing. `thinking` is what stood in tags."""

    text: str
    thinking: str = ""
    found: ReplyMarks = NO_REPLY_MARKS
    silent: bool = False


def read_answer(
    text: str,
    *,
    enforce: bool = False,
    allowed: Callable[[str], bool] = is_web_address,
) -> VisibleAnswer:
    """Read one message's text. `enforce`: only what stands in <final> counts."""
    made = read_answer_with_tokens(text, enforce=enforce, allowed=allowed)
    quiet = is_silent(made.text)
    return msgspec.structs.replace(made, text="" if quiet else strip_silence(made.text).strip(), silent=quiet)


def read_answer_with_tokens(
    text: str, *, enforce: bool = False, allowed: Callable[[str], bool] = is_web_address
) -> VisibleAnswer:
    """As `answer`, but the tokens of silence and of heartbeats still stand where they stood."""
    visible, thinking = split_reasoning(text, enforce=enforce)
    if "[" not in visible and "MEDIA:" not in visible:
        return VisibleAnswer(visible, thinking)
    marks = MarkReader(allowed)
    visible = f"{marks.feed(visible)}{marks.close()}".strip()
    return VisibleAnswer(visible, thinking, marks.found)


def collect_visible_text(messages: Iterable[Message], *, enforce: bool = False) -> str:
    """All that people see of a run's messages, in order; "" for a chosen silence."""
    answers = [
        read_answer(m.text, enforce=enforce) for m in messages if isinstance(m, AssistantMessage) and m.text.strip()
    ]
    if answers and answers[-1].silent:
        return ""
    return MESSAGE_GAP.join(a.text for a in answers if a.text)
