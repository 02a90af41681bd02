""".gitignore files: which names a search leaves out. Pure; standard library only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from palinurus.tools.search.glob import GlobPattern

_MAX_RULES = 2000


class IgnoreRule(NamedTuple):
    glob: GlobPattern
    keep: bool  # "!pattern"
    folders: bool  # "pattern/"


class IgnoreFile(NamedTuple):
    """One file's rules. `depth` is how many segments of a path lie above the file's folder."""

    depth: int
    rules: tuple[IgnoreRule, ...]
    above: tuple[str, ...] = ()  # segments from the file's folder down to where the search starts


def parse_ignore_file(text: str, depth: int, above: tuple[str, ...] = ()) -> IgnoreFile:
    """The rules of one .gitignore."""
    rules = [rule for line in text.splitlines()[:_MAX_RULES] if (rule := _rule(line)) is not None]
    return IgnoreFile(depth, tuple(rules), above)


def _rule(line: str) -> IgnoreRule | None:
    pattern = line.rstrip() if not line.rstrip().endswith("\\") else line.rstrip() + " "
    if not pattern or pattern.startswith("#") or len(pattern) > 1000:
        return None
    keep = pattern.startswith("!")
    pattern = pattern[1:] if keep else pattern
    pattern = pattern[1:] if pattern.startswith(("\\#", "\\!")) else pattern
    folders = pattern.endswith("/")
    bare = pattern.rstrip("/")
    if not bare:
        return None
    anchored = "/" in bare
    return IgnoreRule(GlobPattern(bare if anchored else f"**/{bare}"), keep, folders)


def is_ignored(path: Sequence[str], folder: bool, files: Sequence[IgnoreFile]) -> bool:
    """Is `path` (segments from the search's start) left out? The last matching rule of the nearest file decides."""
    for one in reversed(files):
        segments = (*one.above, *path[one.depth :])
        for rule in reversed(one.rules):
            if (folder or not rule.folders) and rule.glob.match(segments):
                return not rule.keep
    return False
