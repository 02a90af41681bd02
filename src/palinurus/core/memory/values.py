"""The words of memory: what is asked, what is found. Shared by the tools, which show it, and `workspace/memory`,
which finds it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

CITATIONS = ("auto", "on", "off")


class MemoryOptions(msgspec.Struct, frozen=True):
    """One agent's: agents.*.memorySearch, agents.*.contextLimits and memory.citations."""

    enabled: bool = True
    extra: tuple[str, ...] = ()  # files and folders besides MEMORY.md and memory/
    max_results: int = 6
    min_score: float = 0.35
    chunk: int = 400  # tokens
    overlap: int = 80
    get_lines: int = 120
    get_chars: int = 12_000
    citations: str = "auto"


class MemoryHit(msgspec.Struct, frozen=True, rename="camel"):
    """A piece of a file that answers. `score` is 0..1; lines count from 1, both ends included."""

    path: str
    start_line: int
    end_line: int
    score: float
    snippet: str
    source: str = "memory"
    citation: str | None = None


class MemoryFindings(msgspec.Struct, frozen=True):
    """`disabled` says why nothing could be searched; `note` what was not as it should be."""

    hits: tuple[MemoryHit, ...] = ()
    disabled: str = ""
    note: str = ""


class MemoryExcerpt(msgspec.Struct, frozen=True):
    """Lines of a memory file. A missing file has no text and is no error; `next` is where to go on, 0 at the end."""

    path: str
    text: str = ""
    start: int = 1
    lines: int = 0
    total: int = 0
    next: int = 0
    missing: bool = False


class MemoryRefusal(msgspec.Struct, frozen=True):
    """Why a path is not read as memory."""

    reason: str


def read_memory_options(
    search: Iterable[Mapping[str, Any] | None], limits: Iterable[Mapping[str, Any] | None], cite: Any
) -> MemoryOptions:
    """From sections of the config, the general before the particular. What makes no sense is the default."""
    base, found, room = MemoryOptions(), _over(search), _over(limits)
    query, chunking = _table(found.get("query")), _table(found.get("chunking"))
    chunk = _count(chunking.get("tokens"), base.chunk)
    extra = found.get("extraPaths")
    return MemoryOptions(
        enabled=found.get("enabled") is not False,
        extra=tuple(p for p in extra if isinstance(p, str) and p.strip()) if isinstance(extra, list | tuple) else (),
        max_results=min(_count(query.get("maxResults"), base.max_results), 50),
        min_score=_share(query.get("minScore"), base.min_score),
        chunk=chunk,
        overlap=min(_count(chunking.get("overlap"), base.overlap, 0), chunk // 2),
        get_lines=_count(room.get("memoryGetDefaultLines"), base.get_lines),
        get_chars=_count(room.get("memoryGetMaxChars"), base.get_chars),
        citations=cite if cite in CITATIONS else base.citations,
    )


def _over(sections: Iterable[Mapping[str, Any] | None]) -> dict[str, Any]:
    """Tables of the same name are laid over each other, key by key."""
    made: dict[str, Any] = {}
    for section in sections:
        for key, value in (section or {}).items():
            old = made.get(key)
            made[key] = {**old, **value} if isinstance(old, dict) and isinstance(value, dict) else value
    return made


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _count(value: Any, otherwise: int, least: int = 1) -> int:
    return value if type(value) is int and value >= least else otherwise


def _share(value: Any, otherwise: float) -> float:
    return float(value) if type(value) in (int, float) and 0 <= value <= 1 else otherwise
