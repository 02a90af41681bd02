"""What a talk with a program is given: the program, its environment, what to tell it, its conversation's id."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from palinurus.agent.plan import RunPlan
from palinurus.agent.runtimes.brief import GO_ON, Brief, earlier
from palinurus.config.runtimes import Program
from palinurus.core.types.messages import ImageBlock, UserMessage


class Kit(NamedTuple):
    program: Program  # its command begins with a path
    env: dict[str, str]
    brief: Brief
    known: Callable[[], Awaitable[str]]  # the id of the conversation; "" if there is none
    keep: Callable[[str], Awaitable[None]]  # remember it
    mark: str  # of its process: the same for every process that works for this session


class Words(NamedTuple):
    """What is said to the program at once."""

    texts: tuple[str, ...]
    images: tuple[ImageBlock, ...] = ()


def first(plan: RunPlan, told: Brief, *, known: bool, seen: bool) -> Words:
    """The first words of a run. `known`: the program has its conversation; `seen`: and this message in it."""
    if known and seen:
        return Words((GO_ON,))
    asked = next((m for m in (*plan.opening[::-1], *plan.history[::-1]) if isinstance(m, UserMessage)), UserMessage(""))
    before = "" if known else earlier(tuple(m for m in plan.history if m is not asked))
    said = words((asked,))
    return said._replace(texts=tuple(text for text in (before, told.context, *said.texts) if text))


def words(messages: Sequence[UserMessage]) -> Words:
    """Messages as they stand."""
    images = tuple(block for m in messages for block in m.blocks if isinstance(block, ImageBlock))
    return Words(tuple(m.text for m in messages if m.text), images)
