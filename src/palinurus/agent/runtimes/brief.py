"""What another program is told besides the message: who it is, which workspace files go where. Pure.

Each file has one place: instructions (once per conversation), context (with every message), or neither. A program
that finds a file by itself is not given it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, TypeAlias

from palinurus.core.prompt.bootstrap import HEARTBEAT_FILE
from palinurus.core.prompt.context import get_base_name
from palinurus.core.prompt.facts import FileFact
from palinurus.core.types.messages import AssistantMessage, Message, UserMessage

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


class ProgramBrief(NamedTuple):
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
