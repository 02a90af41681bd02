"""What a talk with a program is given: the program, its environment, what to tell it, its conversation's id."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from palinurus.agent.plan import RunPlan
from palinurus.agent.runtimes.brief import GO_ON, ProgramBrief, render_history
from palinurus.config.runtimes import RuntimeProgram
from palinurus.core.types.messages import ImageBlock, UserMessage


class TalkKit(NamedTuple):
    program: RuntimeProgram  # its command begins with a path
    env: dict[str, str]
    brief: ProgramBrief
    known: Callable[[], Awaitable[str]]  # the id of the conversation; "" if there is none
    keep: Callable[[str], Awaitable[None]]  # remember it
    mark: str  # of its process: the same for every process that works for this session


class TalkWords(NamedTuple):
    """What is said to the program at once."""

    texts: tuple[str, ...]
    images: tuple[ImageBlock, ...] = ()


def compose_first_words(plan: RunPlan, told: ProgramBrief, *, known: bool, seen: bool) -> TalkWords:
    """The first words of a run. `known`: the program has its conversation; `seen`: and this message in it."""
    if known and seen:
        return TalkWords((GO_ON,))
    asked = next((m for m in (*plan.opening[::-1], *plan.history[::-1]) if isinstance(m, UserMessage)), UserMessage(""))
    before = "" if known else render_history(tuple(m for m in plan.history if m is not asked))
    said = to_words((asked,))
    return said._replace(texts=tuple(text for text in (before, told.context, *said.texts) if text))


def to_words(messages: Sequence[UserMessage]) -> TalkWords:
    """Messages as they stand."""
    images = tuple(block for m in messages for block in m.blocks if isinstance(block, ImageBlock))
    return TalkWords(tuple(m.text for m in messages if m.text), images)
