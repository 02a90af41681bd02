"""What a person said in a message that the model got, and what the program put around it or said itself. Pure.

The program's words are recognised by how it writes them (`core/untrusted.py`, sub-agents, jobs, heartbeats, wake-ups):
transcripts keep no other sign of it, and old ones never had one.
"""

from __future__ import annotations

import msgspec

from palinurus.core.prompt.facts import HEARTBEAT_PROMPT
from palinurus.core.types.messages import TextBlock, UserMessage
from palinurus.core.untrusted import CONTEXT_HEADING, MESSAGE_HEADING
from palinurus.patterns import compile_late

OURS = "[Palinurus] "  # … that asks for an answer once more (core/structured.py)
TOLD = "System: "  # how a message begins that something was told with
_JOB = compile_late(r"\[cron:[^\s\]]+ ([^\]\n]{0,200})\] ?")
_CHILD = compile_late(r"\[Subagent (?:Task|Steering)\]\n")
_NOTES = "Notes of the last days, kept by you in memory/."  # sessions/startup.py
# How lines around a person's text begin: the group, what is answered, which files came, where the editor is.
_AROUND = ("[In the group “", "[Answers ", "[Answers:", "[file ", "[The editor is open in ")


class SpokenMessage(msgspec.Struct, frozen=True):
    """`words` are the person's; `program`: what the program's message is about, "" if a person speaks."""

    words: str
    program: str = ""


def read_spoken(message: UserMessage) -> SpokenMessage:
    """Whose words they are, and which."""
    blocks = message.blocks
    first = blocks[0] if blocks else None
    if len(blocks) > 1 and isinstance(first, TextBlock) and first.text.startswith((TOLD, _NOTES)):
        blocks = blocks[1:]  # what the session was told before the person's message
    text = "".join(block.text for block in blocks if isinstance(block, TextBlock))
    if text.startswith(TOLD):
        return SpokenMessage("", _shorten(text.removeprefix(TOLD)))
    if text.startswith(OURS):
        return SpokenMessage("", _shorten(text.removeprefix(OURS)))
    if (job := _JOB.match(text)) is not None:
        return SpokenMessage("", f"Job: {job[1]}")
    if text.startswith(HEARTBEAT_PROMPT[:40]):
        return SpokenMessage("", "Heartbeat")
    if (task := _CHILD.match(text)) is not None:
        return SpokenMessage("", f"Task: {_shorten(text[task.end() :])}")
    if text.startswith(CONTEXT_HEADING):
        text = text.partition(f"\n{MESSAGE_HEADING}\n")[2] or text
    kept = (line for line in text.split("\n") if not (line.startswith(_AROUND) and line.endswith("]")))
    return SpokenMessage("\n".join(kept).strip())


def _shorten(text: str) -> str:
    line = text.strip().partition("\n")[0]
    return line if len(line) <= 200 else line[:199] + "…"
