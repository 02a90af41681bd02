"""From matches to results: a score between 0 and 1, the part of the text to show, where it stands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from palinurus.core.memory.values import MemoryHit
from palinurus.core.types.keys import parse_session_key

SNIPPET = 700  # characters
_SMOOTH = 60  # the larger, the less the first places count
_BEFORE = 120  # of them before the first word that was found


class MemoryMatch(NamedTuple):
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
        MemoryHit(match.path, match.start, match.end, score, cut_snippet(match.text, words))
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
