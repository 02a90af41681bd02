""".gitignore files: which names a search leaves out. Pure; standard library only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from palinurus.tools.search.glob import Glob

_MAX_RULES = 2000


class Rule(NamedTuple):
    glob: Glob
    keep: bool  # "!pattern"
    folders: bool  # "pattern/"


class Rules(NamedTuple):
    """One file's rules. `depth` is how many segments of a path lie above the file's folder."""

    depth: int
    rules: tuple[Rule, ...]
    above: tuple[str, ...] = ()  # segments from the file's folder down to where the search starts


def parse(text: str, depth: int, above: tuple[str, ...] = ()) -> Rules:
    """The rules of one .gitignore."""
    rules = [rule for line in text.splitlines()[:_MAX_RULES] if (rule := _rule(line)) is not None]
    return Rules(depth, tuple(rules), above)


def _rule(line: str) -> Rule | None:
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
    return Rule(Glob(bare if anchored else f"**/{bare}"), keep, folders)


def ignored(path: Sequence[str], folder: bool, files: Sequence[Rules]) -> bool:
    """Is `path` (segments from the search's start) left out? The last matching rule of the nearest file decides."""
    for one in reversed(files):
        segments = (*one.above, *path[one.depth :])
        for rule in reversed(one.rules):
            if (folder or not rule.folders) and rule.glob.match(segments):
                return not rule.keep
    return False
