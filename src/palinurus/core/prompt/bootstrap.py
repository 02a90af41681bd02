"""Which workspace files go into a prompt, and how much of each. Pure: the texts are handed in, files are never changed.

Files are filled in the order the prompt shows them; each gets its own limit or what is left of the total. Sizes are
for the diagnostics, not for the prompt.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from palinurus.core.prompt.conduct import plain
from palinurus.core.prompt.context import DYNAMIC, WEIGHTS, base
from palinurus.core.prompt.facts import FileFact
from palinurus.core.types.keys import Kind

FIRST = "BOOTSTRAP.md"
HEARTBEAT = "HEARTBEAT.md"
SET: tuple[str, ...] = (
    "AGENTS.md", "SOUL.md", "IDENTITY.md", "USER.md", "TOOLS.md", FIRST, "MEMORY.md", HEARTBEAT,
)  # fmt: skip
OPTIONAL = frozenset((FIRST, "MEMORY.md"))  # nobody misses them
SMALL: tuple[str, ...] = ("AGENTS.md", "TOOLS.md")  # all that sub-agents and jobs see
LEAST = 64  # characters; with less left, nothing more is put in
HEAD = 0.75  # of what is kept of a long file; the rest is its end
NEAR = 0.85  # of a limit: worth a word in the diagnostics

State: TypeAlias = Literal["whole", "shortened", "left out", "blank", "missing", "absent", "refused"]
_EMPTY = re.compile(r"\s*(?:#{1,6}(?:\s.*)?|[-*+]\s*(?:\[[ xX]?\]\s*)?|)")
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)


class Raw(NamedTuple):
    """A file as it was found. `text` is None if it is not there; `refused` says why it is not read."""

    name: str
    path: str
    text: str | None
    refused: str = ""


class Weighed(NamedTuple):
    """A file in the diagnostics: characters on disk and in the prompt."""

    name: str
    path: str
    raw: int
    injected: int
    state: State
    near: bool = False  # whole, but close to its limit


class Injection(NamedTuple):
    """What goes in, and what it weighs."""

    files: tuple[FileFact, ...] = ()
    pending: bool = False  # BOOTSTRAP.md waits for the first conversation
    weights: tuple[Weighed, ...] = ()


def wanted(kind: Kind, heartbeat: bool) -> tuple[str, ...]:
    """The names for a session of this kind. `heartbeat`: do heartbeats run, and may normal runs hear of them?"""
    if kind in ("subagent", "cron"):
        return SMALL
    return SET if heartbeat else tuple(name for name in SET if name != HEARTBEAT)


def inject(found: Iterable[Raw], limit: int, total: int) -> Injection:
    """The files within `limit` characters each and `total` together."""
    files: list[FileFact] = []
    weights: list[Weighed] = []
    room = total
    for raw in sorted(found, key=_rank):
        fact, weight = _one(raw, min(limit, room) if room >= LEAST else 0, limit)
        weights.append(weight)
        if fact is not None:
            files.append(fact)
            room -= len(fact.text)
    pending = any(w.name == FIRST and w.state in ("whole", "shortened", "left out") for w in weights)
    return Injection(tuple(files), pending, tuple(weights))


def _one(raw: Raw, room: int, limit: int) -> tuple[FileFact | None, Weighed]:
    if raw.text is None:
        return _not_there(raw, room)
    text = plain(raw.text)
    size = len(raw.text)
    if blank(raw.name, text):
        return None, Weighed(raw.name, raw.path, size, 0, "blank")
    if len(text) <= room:
        return FileFact(raw.name, text), Weighed(raw.name, raw.path, size, len(text), "whole", len(text) > limit * NEAR)
    cut = shortened(text, raw.name, room)
    state: State = "shortened" if cut else "left out"
    return FileFact(raw.name, cut, truncated=True), Weighed(raw.name, raw.path, size, len(cut), state)


def _not_there(raw: Raw, room: int) -> tuple[FileFact | None, Weighed]:
    if not raw.refused and raw.name in OPTIONAL:
        return None, Weighed(raw.name, raw.path, 0, 0, "absent")
    text = f"[NOT READ] {raw.refused}" if raw.refused else f"[MISSING] Expected at: {raw.path}"
    text = " ".join(text.split())  # one line, whatever the directory is called
    state: State = "refused" if raw.refused else "missing"
    if len(text) > room:
        return None, Weighed(raw.name, raw.path, 0, 0, state)
    return FileFact(raw.name, text, missing=True), Weighed(raw.name, raw.path, 0, len(text), state)


def shortened(text: str, name: str, room: int) -> str:
    """Beginning and end of a text with a mark between that names the file; "" if not even that has room."""
    mark = f"\n[… {name} is shortened here: read the file for the rest …]\n"
    left = room - len(mark)
    if left < len(mark) // 2:
        return ""
    head = int(left * HEAD)
    tail = left - head
    return f"{text[:head].rstrip()}{mark}{text[len(text) - tail :].lstrip()}"


def blank(name: str, text: str) -> bool:
    """Does it say nothing? Of HEARTBEAT.md headings, comments and empty list items are nothing too."""
    if base(name) not in DYNAMIC:
        return not text.strip()
    return all(_EMPTY.fullmatch(line) for line in _COMMENT.sub("", text).split("\n"))


def _rank(raw: Raw) -> tuple[int, str]:
    known = WEIGHTS.get(base(raw.name))
    return (known if known is not None else 900 if base(raw.name) in DYNAMIC else 1000, raw.name)


# agent:bootstrap hooks: what they get, what they may give back


def payload(found: Iterable[Raw]) -> list[dict[str, Any]]:
    """The files as hooks see them."""
    return [
        {"name": raw.name, "path": raw.path, "content": raw.text or "", "missing": raw.text is None} for raw in found
    ]


def replaced(given: Any) -> tuple[Raw, ...] | None:
    """The files a hook gave back; None if it gave no list. What is not a file in the list is left out."""
    if not isinstance(given, list):
        return None
    made = []
    for entry in given:
        if isinstance(entry, Mapping) and isinstance(entry.get("name"), str) and entry["name"].strip():
            content = entry.get("content")
            text = content if isinstance(content, str) and not entry.get("missing") else None
            made.append(Raw(" ".join(entry["name"].split()), str(entry.get("path") or entry["name"]), text))
    return tuple(made)
