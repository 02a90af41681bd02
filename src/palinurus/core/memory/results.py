"""The words of memory: what is asked, and what is found, with a score between 0 and 1, the part of the text to show and
where it stands. Shared by the tools, which show it, and `workspace/memory`, which finds it. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from palinurus.core.text import normalize_breaks
from palinurus.core.types.keys import parse_session_key

LINE_CUT = "…[line cut]"
CITATIONS = ("auto", "on", "off")
SNIPPET = 700  # characters
_SMOOTH = 60  # the larger, the less the first places count
_BEFORE = 120  # of them before the first word that was found


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


def read_memory_options(found: Mapping[str, Any], room: Mapping[str, Any], cite: Any) -> MemoryOptions:
    """From memorySearch and contextLimits. What makes no sense is the default."""
    base = MemoryOptions()
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


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _count(value: Any, otherwise: int, least: int = 1) -> int:
    return value if type(value) is int and value >= least else otherwise


def _share(value: Any, otherwise: float) -> float:
    return float(value) if type(value) in (int, float) and 0 <= value <= 1 else otherwise


class MemoryMatch(msgspec.Struct, frozen=True):
    """A chunk the index gave: how much of the question it has (0..1), and how strongly (larger is more)."""

    path: str
    start: int
    end: int
    text: str
    share: float
    strength: float


def rank_matches(matches: Iterable[MemoryMatch], words: Sequence[str], limit: int, least: float) -> list[MemoryHit]:
    """Best first. How much of the question is there decides; how strongly decides between those that have as much."""
    known = list(matches)
    best = max((match.strength for match in known), default=0.0)
    scored = [(_score(match, best), match) for match in known]
    scored.sort(key=lambda pair: (-pair[0], pair[1].path, pair[1].start))
    return [
        MemoryHit(match.path, match.start, match.end, score, snippet=cut_snippet(match.text, words))
        for score, match in scored[: max(limit, 0)]
        if score >= least
    ]


def fuse_rankings(worded: Sequence[MemoryHit], near: Sequence[MemoryHit], limit: int) -> list[MemoryHit]:
    """Two rankings as one (reciprocal rank fusion): what is high in both comes first. A piece in both has its
    better score."""
    places: dict[tuple[str, int, int], float] = {}
    hits: dict[tuple[str, int, int], MemoryHit] = {}
    for ranking in (worded, near):
        for place, hit in enumerate(ranking, 1):
            key = (hit.path, hit.start_line, hit.end_line)
            places[key] = places.get(key, 0.0) + 1 / (_SMOOTH + place)
            known = hits.setdefault(key, hit)
            if hit.score > known.score:
                hits[key] = msgspec.structs.replace(known, score=hit.score)
    order = sorted(places, key=lambda key: (-places[key], -hits[key].score, key))
    return [hits[key] for key in order[: max(limit, 0)]]


def _score(match: MemoryMatch, best: float) -> float:
    share = min(1.0, max(0.0, match.share))
    strength = min(1.0, max(0.0, match.strength / best)) if best > 0 else 0.0
    return round(share * (0.7 + 0.3 * strength), 4)


def cut_snippet(text: str, words: Sequence[str], room: int = SNIPPET) -> str:
    """At most `room` characters around the first of the words, from the beginning of a line where that is near."""
    if len(text) <= room:
        return text
    low = text.lower()
    if len(low) != len(text):  # some letters grow in lower case; places would be wrong
        low = text
    at = min((found for word in words if (found := low.find(word.lower())) >= 0), default=0)
    start = max(0, at - _BEFORE)
    line = text.rfind("\n", start, at) + 1
    start = line if line > 0 else text.rfind("\n", 0, start + 1) + 1 if start < _BEFORE else start
    start = min(start, max(0, len(text) - room + 2), at)
    head, tail = "…" if start else "", "…" if start + room - 1 < len(text) else ""
    return head + text[start : start + room - len(head) - len(tail)] + tail


def cite_hit(hit: MemoryHit) -> str:
    """`path#L3-L9`"""
    lines = f"L{hit.start_line}" if hit.start_line == hit.end_line else f"L{hit.start_line}-L{hit.end_line}"
    return f"{hit.path}#{lines}"


def should_cite(mode: str, session: str) -> bool:
    """Whether results of this session name their places: `auto` is yes except in groups."""
    if mode != "auto":
        return mode == "on"
    key = parse_session_key(session)
    return key is None or key.kind != "group"


def cut_excerpt(path: str, text: str, start: int, count: int, room: int) -> MemoryExcerpt:
    """`count` lines from line `start` on (from 1), at most `room` characters. Only a first line that is too long
    alone is cut."""
    lines = normalize_breaks(text).split("\n")
    if lines[-1] == "":
        lines.pop()
    first = max(start, 1)
    taken: list[str] = []
    left = room
    for line in lines[first - 1 : first - 1 + max(count, 1)]:
        if len(line) + 1 > left:
            break
        taken.append(line)
        left -= len(line) + 1
    if not taken and first <= len(lines):
        taken = [lines[first - 1][: max(room - len(LINE_CUT), 0)] + LINE_CUT]
    after = first + len(taken)
    more = after if taken and after <= len(lines) else 0
    return MemoryExcerpt(path, "\n".join(taken), first, len(taken), total=len(lines), next=more)


def write_excerpt_hint(part: MemoryExcerpt) -> str:
    """How to go on, or why there is nothing; "" when all is there."""
    if part.missing:
        return f"[{part.path} does not exist yet; nothing is remembered there]"
    if part.next:
        return f"[Lines {part.start}-{part.next - 1} of {part.total}. Continue with from={part.next}.]"
    if not part.lines and part.total:
        return f"[{part.path} has {part.total} lines; line {part.start} is beyond its end]"
    return "" if part.text else f"[{part.path} is empty]"
