"""Which version of a file brought each of its lines."""

from __future__ import annotations

import difflib
from collections.abc import Sequence


def blame_lines(versions: Sequence[str | None]) -> list[int]:
    """For each line of the last version, the index of the version it came with. None is a version whose text is
    not known: what stands after it came with the next one, as far as anybody can tell."""
    lines: list[str] = []
    origins: list[int] = []
    for index, text in enumerate(versions):
        new = (text or "").splitlines()
        made = [index] * len(new)
        if len(new) and len(lines):
            for old_at, new_at, size in difflib.SequenceMatcher(None, lines, new, autojunk=False).get_matching_blocks():
                made[new_at : new_at + size] = origins[old_at : old_at + size]
        lines, origins = new, made
    return origins


def diff_versions(before: str, after: str, path: str, most: int = 200) -> str:
    """Unified, at most `most` lines."""
    found = difflib.unified_diff(
        before.splitlines(), after.splitlines(), f"{path} (now)", f"{path} (then)", lineterm=""
    )
    lines = [line for _, line in zip(range(most + 1), found, strict=False)]
    return "\n".join([*lines[:most], "…"] if len(lines) > most else lines)
