"""What another program is told besides the message: who it is, which workspace files go where. Pure.

Each file has one place: instructions (once per conversation), context (with every message), or neither. A program
that finds a file by itself is not given it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Literal, TypeAlias

import msgspec

from palinurus.agent.plan.runplan import RunPlan
from palinurus.config.sections.runtimes import AcpPlace, AcpStreamSettings, RuntimeProgram
from palinurus.core.prompt.bootstrap import HEARTBEAT_FILE, get_base_name
from palinurus.core.prompt.facts import FileFact
from palinurus.core.types.messages import AssistantMessage, ImageBlock, Message, UserMessage

# What a talk with a program is given: the program, its environment, what to tell it, its conversation's id.


class TalkKit(msgspec.Struct, frozen=True):
    program: RuntimeProgram  # its command begins with a path
    env: dict[str, str]
    brief: ProgramBrief
    known: Callable[[], Awaitable[str]]  # the id of the conversation; "" if there is none
    keep: Callable[[str], Awaitable[None]]  # remember it
    mark: str  # of its process: the same for every process that works for this session
    place: AcpPlace = AcpPlace()
    stream: AcpStreamSettings = AcpStreamSettings()


class TalkWords(msgspec.Struct, frozen=True):
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
    return msgspec.structs.replace(said, texts=tuple(text for text in (before, told.context, *said.texts) if text))


def to_words(messages: Sequence[UserMessage]) -> TalkWords:
    """Messages as they stand."""
    images = tuple(block for m in messages for block in m.blocks if isinstance(block, ImageBlock))
    return TalkWords(tuple(m.text for m in messages if m.text), images)


Place: TypeAlias = Literal["instructions", "context", "pointer"]
PLACES: dict[str, Place] = {
    "agents.md": "instructions",
    "soul.md": "instructions",
    "identity.md": "instructions",
    "tools.md": "instructions",
    "user.md": "instructions",
    "heartbeat.md": "pointer",
    "memory.md": "context",
    "bootstrap.md": "context",
}
EARLIER = 8_000  # characters of the conversation so far that a program which has not seen it is told
GO_ON = (
    "You were interrupted while you worked on the last message. Go on where you were. Before you repeat a step that "
    "changes something, look whether it was done already."
)
BEAT = f"{HEARTBEAT_FILE} in the workspace has content: read it and do what it says is due."


class ProgramBrief(msgspec.Struct, frozen=True):
    """`instructions` stand for the whole conversation, `context` goes with one message."""

    instructions: str = ""
    context: str = ""


def write_brief(
    files: Iterable[FileFact], found: frozenset[str], who: Sequence[str], *, beat: bool = False
) -> ProgramBrief:
    """`found`: files the program reads by itself (names in lower case); `who`: lines on the occasion; `beat`: this is
    a heartbeat turn."""
    told: dict[Place, list[str]] = {"instructions": ["\n".join(who)], "context": [], "pointer": []}
    for file in files:
        name = get_base_name(file.name)
        if file.missing or name in found:
            continue
        place = PLACES.get(name, "context")
        told[place].append(BEAT if place == "pointer" else f"## {file.name}\n\n{file.text}")
    context = [*told["context"], *(told["pointer"] if beat else ())]
    head = ("# Workspace context\nFiles of this workspace as they are now.",) if told["context"] else ()
    return ProgramBrief("\n\n".join(told["instructions"]), "\n\n".join((*head, *context)))


def render_history(history: Sequence[Message]) -> str:
    """The conversation so far as text, its end if it is long; "" if there is none."""
    names = {UserMessage: "User", AssistantMessage: "You"}
    said = [f"{names[type(m)]}: {m.text}" for m in history if type(m) in names and m.text.strip()]
    text = "\n\n".join(said)
    if not text:
        return ""
    return f"# Earlier in this conversation\n\n{text if len(text) <= EARLIER else '…' + text[-EARLIER:]}"
