"""Globs over paths (*, ?, [set], {a,b} within a name, ** over folders) and .gitignore files made of them. Pure, and
linear in the name's length.

Stars become atomic groups, so no pattern can make matching explode. Standard library only: the worker loads it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

_MAX_RULES = 2000  # of one .gitignore
_MAX_CHOICES = 128  # patterns one brace expression may become
_NEVER = re.compile(r"(?!)")


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


class GlobPattern:
    """One pattern. `match` takes the path's segments."""

    def __init__(self, pattern: str, *, ignore_case: bool = False) -> None:
        flags = re.DOTALL | (re.IGNORECASE if ignore_case else 0)
        self._choices = [_compiled(choice, flags) for choice in expand_braces(pattern)]

    def match(self, segments: Sequence[str]) -> bool:
        return any(_matches(choice, segments) for choice in self._choices)


def widen_pattern(pattern: str) -> str:
    """A pattern without a slash matches names at any depth."""
    stripped = pattern.removeprefix("./")
    return stripped if "/" in stripped.rstrip("/") else f"**/{stripped}"


def expand_braces(pattern: str) -> list[str]:
    """The pattern for each choice of its braces; as it is when there are none or too many."""
    pending, done = [pattern], []
    while pending:
        one = pending.pop()
        found = re.search(r"(?<!\\)\{([^{}]*,[^{}]*)\}", one)
        if found is None:
            done.append(one)
        else:
            pending += [one[: found.start()] + choice + one[found.end() :] for choice in found.group(1).split(",")]
        if len(pending) + len(done) > _MAX_CHOICES:
            return [pattern]
    return done


def _compiled(pattern: str, flags: int) -> list[re.Pattern[str] | None]:
    """One regex per segment; None stands for **."""
    parts: list[re.Pattern[str] | None] = []
    for segment in pattern.strip("/").split("/"):
        if segment == "**":
            if not parts or parts[-1] is not None:
                parts.append(None)
        else:
            parts.append(re.compile(_regex(segment), flags))
    if parts and parts[-1] is None:
        parts.append(re.compile(".*", flags))  # "a/**" is what lies below a, not a itself
    return parts


def _regex(segment: str) -> str:
    """Between two stars the shortest match is always right, so each such piece is atomic."""
    pieces: list[list[str]] = [[]]
    at = 0
    while at < len(segment):
        char = segment[at]
        at += 1
        if char == "*":
            if pieces[-1] or len(pieces) == 1:
                pieces.append([])
        elif char == "?":
            pieces[-1].append(".")
        elif char == "[":
            text, at = _set(segment, at)
            pieces[-1].append(text)
        elif char == "\\" and at < len(segment):
            pieces[-1].append(re.escape(segment[at]))
            at += 1
        else:
            pieces[-1].append(re.escape(char))
    joined = ["".join(piece) for piece in pieces]
    if len(joined) == 1:
        return joined[0] + r"\Z"
    return joined[0] + "".join(f"(?>.*?{piece})" for piece in joined[1:-1]) + f".*{joined[-1]}" + r"\Z"


def _set(segment: str, at: int) -> tuple[str, int]:
    end = segment.find("]", at + 2 if segment[at : at + 1] in ("!", "^") else at + 1)
    if end < 0:
        return r"\[", at
    body = segment[at:end]
    negated = body[:1] in ("!", "^")
    inner = re.sub(r"([\\\[\]^&~|])", r"\\\1", body[1:] if negated else body).replace("--", r"\-\-")
    text = f"[{'^' if negated else ''}{inner}]"
    try:
        re.compile(text)
    except re.error:
        return re.escape(f"[{body}]"), end + 1
    return text, end + 1


def _matches(parts: Sequence[re.Pattern[str] | None], segments: Sequence[str]) -> bool:
    """Greedy with one point to return to: enough, since ** is the only part that takes a varying number."""
    part = at = 0
    star, resume = -1, 0
    while at < len(segments):
        step = parts[part] if part < len(parts) else _NEVER
        if step is None:
            star, resume = part, at
            part += 1
        elif step.match(segments[at]):
            part += 1
            at += 1
        elif star >= 0:
            resume += 1
            part, at = star + 1, resume
        else:
            return False
    while part < len(parts) and parts[part] is None:
        part += 1
    return part == len(parts)
