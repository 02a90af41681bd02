"""What could follow what was typed: commands after a slash, then the words that some of them take. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

SHOWN = 8

OURS = (
    ("/sessions", "switch to another session (Ctrl-P)"),
    ("/models", "choose the model (Ctrl-L)"),
    ("/keys", "what the keys do (F1)"),
    ("/exit", "leave (Ctrl-D)"),
)


class LineCompletion(NamedTuple):
    """A way to go on: what the line becomes, and what people see."""

    line: str
    label: str
    about: str = ""


class CompletionWords(NamedTuple):
    """What can be typed. `arguments`: command -> the words it takes."""

    commands: Sequence[tuple[str, str]] = OURS
    arguments: Mapping[str, Sequence[str]] = {}


def gather_completion_words(
    commands: Iterable[Mapping[str, Any]], models: Iterable[str], levels: Iterable[str]
) -> CompletionWords:
    """From the gateway's lists."""
    told = [(f"/{row['name']}", str(row.get("description") or "")) for row in commands]
    ours = [row for row in OURS if row[0] not in {name for name, _ in told}]
    arguments = {"/model": ("default", *models), "/think": ("default", *levels)}
    return CompletionWords((*sorted(told), *ours), arguments)


def complete_line(text: str, what: CompletionWords) -> list[LineCompletion]:
    """For a line that begins with a slash and has one line. A command typed whole offers nothing."""
    if not text.startswith("/") or "\n" in text:
        return []
    name, space, rest = text.partition(" ")
    if space and name in what.arguments:
        found = [word for word in what.arguments[name] if rest.lower() in word.lower() and word != rest]
        return [LineCompletion(f"{name} {word}", word) for word in found[:SHOWN]]
    wanted = text.lower()
    if any(command == wanted for command, _ in what.commands):
        return []
    starts = [LineCompletion(f"{c} ", c, about) for c, about in what.commands if c.startswith(wanted)]
    return starts[:SHOWN]
