"""Which tools a run is offered: the allow and deny lists of the config. (The eight layers build on this.)"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

GROUPS: dict[str, tuple[str, ...]] = {
    "group:fs": ("read", "write", "edit", "apply_patch"),
    "group:runtime": ("exec", "process"),
    "group:memory": ("memory_search", "memory_get"),
}


def offered(names: Iterable[str], allow: tuple[str, ...] | None, deny: tuple[str, ...]) -> list[str]:
    """Names that survive; deny beats allow, no allow list means all, `*` globs and groups are understood."""
    allowed = _expand(allow) if allow else ("*",)
    denied = _expand(deny)
    return [n for n in names if _any(n, allowed) and not _any(n, denied)]


def _expand(patterns: tuple[str, ...]) -> tuple[str, ...]:
    low = [p.strip().lower() for p in patterns]
    return tuple(name for p in low for name in GROUPS.get(p, (p,)))


def _any(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, p) for p in patterns)
