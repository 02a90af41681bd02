"""What could follow what was typed: commands after a slash, then the words that some of them take; files after an @."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from palinurus.workspace.mentions import find_files

SHOWN = 8

OURS = (
    ("/copy", "copy the last answer, or the one before with a number (Ctrl-Y)"),
    ("/edit", "write the message in your editor (Ctrl-G)"),
    ("/exit", "leave (Ctrl-D)"),
    ("/find", "look for words in this conversation (F3)"),
    ("/keys", "what the keys do (F1)"),
    ("/models", "choose the model (Ctrl-L)"),
    ("/panel", "what goes on in the background (F2)"),
    ("/retry", "ask the last thing again"),
    ("/rewind", "back to an earlier message; files too (Esc Esc)"),
    ("/sessions", "switch to another session (Ctrl-P)"),
    ("/theme", "colours of the screen"),
)


class LineCompletion(msgspec.Struct, frozen=True):
    """A way to go on: what the line becomes, and what people see."""

    line: str
    label: str
    about: str = ""


class CompletionWords(msgspec.Struct, frozen=True):
    """What can be typed. `arguments`: command -> the words it takes; `aliases`: every spelling the gateway knows."""

    commands: Sequence[tuple[str, str]] = OURS
    arguments: Mapping[str, Sequence[str]] = {}
    aliases: frozenset[str] = frozenset()


def gather_completion_words(
    commands: Iterable[Mapping[str, Any]], models: Iterable[str], levels: Iterable[str], themes: Iterable[str] = ()
) -> CompletionWords:
    """From the gateway's lists."""
    rows = list(commands)
    told = [(f"/{row['name']}", str(row.get("description") or "")) for row in rows]
    ours = [row for row in OURS if row[0] not in {name for name, _ in told}]
    arguments = {f"/{row['name']}": words for row in rows if (words := read_usage(str(row.get("usage") or "")))}
    arguments |= {"/model": ("default", *models), "/think": ("default", *levels), "/theme": tuple(themes)}
    aliases = {str(name) for row in rows for name in row.get("textAliases") or ()}
    return CompletionWords((*sorted(told), *ours), arguments, frozenset(aliases))


def read_usage(usage: str) -> tuple[str, ...]:
    """The words that can stand first behind a command, from how its use is written: [on|off|NAME] are on and off."""
    first = usage.strip().partition("]")[0].lstrip("[").split(" ")[0] if usage else ""
    words = (word.strip("[]") for word in first.split("|"))
    found = tuple(word for word in words if word.isalpha() and word.islower())
    return found if len(found) > 1 else ()


def is_unknown_command(text: str, what: CompletionWords) -> bool:
    """Does it begin like a command that nobody has? A path (`/etc/hosts is wrong`, `/tmp is full`) does not."""
    word = text.split(maxsplit=1)[0] if text.startswith("/") and text[1:2].isalpha() else ""
    if not word or "/" in word[1:] or not what.aliases or os.path.lexists(word):
        return False
    name = word.partition("@")[0].rstrip(":").lower()
    return name not in what.aliases and all(name != command.partition(" ")[0] for command, _ in what.commands)


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


# Files of the workspace after an @, which becomes the path itself: tools take that as it is, and a picture goes along.


def find_mention(text: str) -> str | None:
    """What follows the @ that the text ends with; None if it ends otherwise."""
    word = text[max(text.rfind(" "), text.rfind("\n")) + 1 :]
    return word[1:].removeprefix("./") if word.startswith("@") else None


def complete_mention(text: str, files: Sequence[str]) -> list[LineCompletion]:
    """Files whose path has the letters of the last word in their order; the nearest first."""
    wanted = find_mention(text) or ""
    before = text[: text.rindex("@")]
    return [LineCompletion(f"{before}./{path} ", path) for path in find_files(files, wanted, SHOWN)]
