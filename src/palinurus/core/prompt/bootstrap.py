"""Which workspace files go into a prompt, and how much of each. Pure: the texts are handed in, files are never changed.

Files are filled in the order the prompt shows them; each gets its own limit or what is left of the total. Sizes are
for the diagnostics, not for the prompt.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from palinurus.core.prompt.conduct import strip_lines
from palinurus.core.prompt.context import DYNAMIC_FILES, FILE_WEIGHTS, get_base_name
from palinurus.core.prompt.facts import FileFact
from palinurus.core.types.keys import SessionKind

FIRST_FILE = "BOOTSTRAP.md"
HEARTBEAT_FILE = "HEARTBEAT.md"
BOOTSTRAP_FILES: tuple[str, ...] = (
    "AGENTS.md", "SOUL.md", "IDENTITY.md", "USER.md", "TOOLS.md", FIRST_FILE, "MEMORY.md", HEARTBEAT_FILE,
)  # fmt: skip
OPTIONAL = frozenset((FIRST_FILE, "MEMORY.md"))  # nobody misses them
SUBAGENT_FILES: tuple[str, ...] = ("AGENTS.md", "TOOLS.md")  # all that sub-agents and jobs see
LEAST = 64  # characters; with less left, nothing more is put in
HEAD = 0.75  # of what is kept of a long file; the rest is its end
NEAR = 0.85  # of a limit: worth a word in the diagnostics

State: TypeAlias = Literal["whole", "shortened", "left out", "blank", "missing", "absent", "refused"]
_EMPTY = re.compile(r"\s*(?:#{1,6}(?:\s.*)?|[-*+]\s*(?:\[[ xX]?\]\s*)?|)")
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)


class BootstrapFile(NamedTuple):
    """A file as it was found. `text` is None if it is not there; `refused` says why it is not read."""

    name: str
    path: str
    text: str | None
    refused: str = ""


class BootstrapWeight(NamedTuple):
    """A file in the diagnostics: characters on disk and in the prompt."""

    name: str
    path: str
    raw: int
    injected: int
    state: State
    near: bool = False  # whole, but close to its limit


class BootstrapInjection(NamedTuple):
    """What goes in, and what it weighs."""

    files: tuple[FileFact, ...] = ()
    pending: bool = False  # BOOTSTRAP.md waits for the first conversation
    weights: tuple[BootstrapWeight, ...] = ()


def list_bootstrap_names(kind: SessionKind, heartbeat: bool) -> tuple[str, ...]:
    """The names for a session of this kind. `heartbeat`: do heartbeats run, and may normal runs hear of them?"""
    if kind in ("subagent", "cron"):
        return SUBAGENT_FILES
    return BOOTSTRAP_FILES if heartbeat else tuple(name for name in BOOTSTRAP_FILES if name != HEARTBEAT_FILE)


def inject_files(found: Iterable[BootstrapFile], limit: int, total: int) -> BootstrapInjection:
    """The files within `limit` characters each and `total` together."""
    files: list[FileFact] = []
    weights: list[BootstrapWeight] = []
    room = total
    for raw in sorted(found, key=_rank):
        fact, weight = _one(raw, min(limit, room) if room >= LEAST else 0, limit)
        weights.append(weight)
        if fact is not None:
            files.append(fact)
            room -= len(fact.text)
    pending = any(w.name == FIRST_FILE and w.state in ("whole", "shortened", "left out") for w in weights)
    return BootstrapInjection(tuple(files), pending, tuple(weights))


def _one(raw: BootstrapFile, room: int, limit: int) -> tuple[FileFact | None, BootstrapWeight]:
    if raw.text is None:
        return _not_there(raw, room)
    text = strip_lines(raw.text)
    size = len(raw.text)
    if is_blank_file(raw.name, text):
        return None, BootstrapWeight(raw.name, raw.path, size, 0, "blank")
    if len(text) <= room:
        return FileFact(raw.name, text), BootstrapWeight(
            raw.name, raw.path, size, len(text), "whole", len(text) > limit * NEAR
        )
    cut = shorten_file(text, raw.name, room)
    state: State = "shortened" if cut else "left out"
    return FileFact(raw.name, cut, truncated=True), BootstrapWeight(raw.name, raw.path, size, len(cut), state)


def _not_there(raw: BootstrapFile, room: int) -> tuple[FileFact | None, BootstrapWeight]:
    if not raw.refused and raw.name in OPTIONAL:
        return None, BootstrapWeight(raw.name, raw.path, 0, 0, "absent")
    text = f"[NOT READ] {raw.refused}" if raw.refused else f"[MISSING] Expected at: {raw.path}"
    text = " ".join(text.split())  # one line, whatever the directory is called
    state: State = "refused" if raw.refused else "missing"
    if len(text) > room:
        return None, BootstrapWeight(raw.name, raw.path, 0, 0, state)
    return FileFact(raw.name, text, missing=True), BootstrapWeight(raw.name, raw.path, 0, len(text), state)


def shorten_file(text: str, name: str, room: int) -> str:
    """Beginning and end of a text with a mark between that names the file; "" if not even that has room."""
    mark = f"\n[… {name} is shortened here: read the file for the rest …]\n"
    left = room - len(mark)
    if left < len(mark) // 2:
        return ""
    head = int(left * HEAD)
    tail = left - head
    return f"{text[:head].rstrip()}{mark}{text[len(text) - tail :].lstrip()}"


def is_blank_file(name: str, text: str) -> bool:
    """Does it say nothing? Of HEARTBEAT.md headings, comments and empty list items are nothing too."""
    if get_base_name(name) not in DYNAMIC_FILES:
        return not text.strip()
    return all(_EMPTY.fullmatch(line) for line in _COMMENT.sub("", text).split("\n"))


def _rank(raw: BootstrapFile) -> tuple[int, str]:
    known = FILE_WEIGHTS.get(get_base_name(raw.name))
    return (known if known is not None else 900 if get_base_name(raw.name) in DYNAMIC_FILES else 1000, raw.name)


# agent:bootstrap hooks: what they get, what they may give back


def to_hook_payload(found: Iterable[BootstrapFile]) -> list[dict[str, Any]]:
    """The files as hooks see them."""
    return [
        {"name": raw.name, "path": raw.path, "content": raw.text or "", "missing": raw.text is None} for raw in found
    ]


def from_hook_payload(given: Any) -> tuple[BootstrapFile, ...] | None:
    """The files a hook gave back; None if it gave no list. What is not a file in the list is left out."""
    if not isinstance(given, list):
        return None
    made = []
    for entry in given:
        if isinstance(entry, Mapping) and isinstance(entry.get("name"), str) and entry["name"].strip():
            content = entry.get("content")
            text = content if isinstance(content, str) and not entry.get("missing") else None
            made.append(BootstrapFile(" ".join(entry["name"].split()), str(entry.get("path") or entry["name"]), text))
    return tuple(made)
