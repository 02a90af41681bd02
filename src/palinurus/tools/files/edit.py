"""The edit tool, and exact-text replacement: where each old text stands, and the file with the new ones in.

All edits are matched against the original. A text must occur exactly once; only if it does not occur at all does a
second look forgive typographic quotes, dashes, odd spaces and trailing blanks. Everything outside the replaced spans
stays as it is, line endings and undecodable bytes included.
"""

from __future__ import annotations

import bisect
import difflib
import re
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from palinurus.core.types.tool import ToolContext, ToolFailure, ToolOutput, make_output
from palinurus.patterns import compile_late
from palinurus.tasks import finish_in_thread
from palinurus.tools.define import define_tool
from palinurus.tools.files import handles
from palinurus.tools.files.buffers import put_file
from palinurus.tools.files.hunks import LOOKALIKES
from palinurus.tools.files.paths import ResolvedPath, resolve_path, shorten_path

_BOM = b"\xef\xbb\xbf"
_BLANKS = compile_late(r"(?<![^\S\n])[^\S\n]+(?=\n|\Z)")
_NEAR_LINES = 3000  # lines compared for the hint
_CONTEXT = 3
_DIFF_CHARS = 20_000


class TextEdit(msgspec.Struct, frozen=True):
    """One replacement."""

    old: Annotated[str, Meta(description="Text to replace; must occur exactly once in the file")] = msgspec.field(
        name="oldText"
    )
    new: Annotated[str, Meta(description="Text to put there")] = msgspec.field(name="newText")


@define_tool(
    "edit",
    summary=("path", "file_path"),
    aliases={
        "path": "file_path file filename",
        "oldText": "old_string old_str",
        "newText": "new_string new_str",
        "edits": "replacements",
    },
)
async def edit_file(
    ctx: ToolContext,
    path: Annotated[str, "File, relative to the workspace or absolute"],
    edits: Annotated[list[TextEdit], "The replacements"],
) -> ToolOutput:
    """Change parts of a file by exact replacement. Every oldText is matched against the file as it is now, must be
    unique and must not overlap another. Several changes of one file go into one call."""
    if not edits:
        raise ToolFailure("edits is empty; give at least one {oldText, newText}")
    place = resolve_path(path, ctx)
    async with handles.lock_path(place):
        small = handles.stat_path(place).st_size < handles.SMALL_FILE
        data, text, details = _edited(place, edits) if small else await finish_in_thread(_edited, place, edits)
        put = await put_file(ctx, place, data)
    return make_output(text + put.note, details)


def _edited(place: ResolvedPath, wanted: list[TextEdit]) -> tuple[bytes, str, dict[str, Any]]:
    """The new file, and what is to be told of it."""
    data = handles.read_text(place, "edit")
    bom = _BOM if data.startswith(_BOM) else b""
    # surrogateescape keeps bytes that are no UTF-8 through the round trip
    original = data[len(bom) :].decode("utf-8", "surrogateescape")
    done = splice_edits(original, wanted)
    if not isinstance(done, SpliceResult):
        raise ToolFailure(f"{shorten_path(place.given)}: {done}. Nothing was changed")
    first = find_first_line(original, done.spans)
    diff = render_diff(original, done.spans).encode("utf-8", "replace").decode()
    places = "1 place" if len(wanted) == 1 else f"{len(wanted)} places"
    return (
        bom + done.text.encode("utf-8", "surrogateescape"),
        f"Changed {shorten_path(place.given)} in {places}, first at line {first}.",
        {"path": place.real, "diff": diff, "firstChangedLine": first},
    )


class TextSpan(NamedTuple):
    """A replacement: original[start:end] becomes `new`."""

    start: int
    end: int
    new: str


class SpliceResult(msgspec.Struct, frozen=True):
    text: str
    spans: tuple[TextSpan, ...]


def splice_edits(original: str, edits: Sequence[TextEdit]) -> SpliceResult | str:
    """The new text, or what is wrong with the edits (then nothing is to be changed)."""
    text = original.replace("\r\n", "\n")
    returns = _returns(original) if len(text) < len(original) else []
    ending = "\r\n" if len(returns) * 2 > original.count("\n") else "\n"
    spans: list[tuple[TextSpan, int]] = []
    for number, edit in enumerate(edits, 1):
        found = _place(text, TextEdit(_lf(edit.old), _lf(edit.new)), number if len(edits) > 1 else 0)
        if isinstance(found, str):
            return found
        start, end = (at + bisect.bisect_left(returns, at) for at in found)
        spans.append((TextSpan(start, end, _lf(edit.new).replace("\n", ending)), number))
    spans.sort()
    for (before, one), (after, other) in pairwise(spans):
        if after.start < before.end:
            return f"edits {one} and {other} overlap; merge them into one"
    ordered = tuple(span for span, _ in spans)
    result = _joined(original, ordered)
    if result == original:
        return "the edits change nothing: old and new text are the same"
    return SpliceResult(result, ordered)


def _lf(text: str) -> str:
    return text.replace("\r\n", "\n")


def _returns(original: str) -> list[int]:
    """For each \\r\\n: where its \\n stands in the text without the \\r."""
    return [found.start() - i for i, found in enumerate(re.finditer("\r\n", original))]


def _joined(original: str, spans: tuple[TextSpan, ...]) -> str:
    pieces, at = [], 0
    for span in spans:
        pieces += [original[at : span.start], span.new]
        at = span.end
    return "".join([*pieces, original[at:]])


def _place(text: str, edit: TextEdit, number: int) -> tuple[int, int] | str:
    name = f"edit {number}: oldText" if number else "oldText"
    if not edit.old:
        return f"{name} is empty; give the text to replace, or use write for a whole file"
    start = text.find(edit.old)
    if start >= 0:
        if text.find(edit.old, start + 1) >= 0:
            return _ambiguous(name, text, edit.old)
        return start, start + len(edit.old)
    return _fuzzy(text, edit, name)


def _ambiguous(name: str, text: str, old: str) -> str:
    lines: list[str] = []
    at = -1
    while len(lines) < 5 and (at := text.find(old, at + 1)) >= 0:
        lines.append(str(text.count("\n", 0, at) + 1))
    return f"{name} occurs {text.count(old)} times (lines {', '.join(lines)}…); add lines around it until it is unique"


def _fuzzy(text: str, edit: TextEdit, name: str) -> tuple[int, int] | str:
    wanted = _BLANKS.sub("", edit.old.translate(LOOKALIKES))
    lines = text.split("\n")
    soft = [line.translate(LOOKALIKES).rstrip() for line in lines]
    joined = "\n".join(soft)
    start = joined.find(wanted) if wanted.strip() else -1
    if start < 0:
        return _absent(text, edit, name)
    if joined.find(wanted, start + 1) >= 0:
        return _ambiguous(name, joined, wanted)
    starts = list(accumulate((len(line) + 1 for line in soft), initial=0))
    origins = list(accumulate((len(line) + 1 for line in lines), initial=0))

    def back(at: int, whole: bool) -> int:
        row = bisect.bisect_right(starts, at) - 1
        column = at - starts[row]
        # blanks at the end of a line belong to a match that reaches its end
        return origins[row] + (len(lines[row]) if whole and column == len(soft[row]) else column)

    return back(start, False), back(start + len(wanted), True)


def _absent(text: str, edit: TextEdit, name: str) -> str:
    words = f"{name} was not found; it must match the file exactly"
    if edit.new.strip() and edit.new in text:
        return f"{words}. newText is already there: this edit may have been made before"
    probe = next((line.strip() for line in edit.old.split("\n") if line.strip()), "")[:200]
    lines = [line.strip()[:200] for line in text.split("\n")[:_NEAR_LINES]]
    near = difflib.get_close_matches(probe, [line for line in lines if line], 1, 0.6) if probe else []
    if not near:
        return f"{words}. Read the file again"
    return f"{words}. The closest line is {lines.index(near[0]) + 1}: {near[0]}"


def find_first_line(original: str, spans: tuple[TextSpan, ...]) -> int:
    """The number of the first line that changed."""
    return original.count("\n", 0, spans[0].start) + 1


def render_diff(original: str, spans: tuple[TextSpan, ...]) -> str:
    """What changed, in unified form, made from the spans: no comparison of whole files."""
    hunks, size, shift = [], 0, 0
    starts = [0, *(found.end() for found in re.finditer("\n", original))]
    for group in _grouped(starts, spans):
        hunk, shift = _hunk(original, starts, group, shift)
        size += len(hunk)
        if size > _DIFF_CHARS:
            hunks.append("[… further changes not shown]")
            break
        hunks.append(hunk)
    return "\n".join(hunks)


def _grouped(starts: list[int], spans: tuple[TextSpan, ...]) -> list[list[TextSpan]]:
    """Spans on the same or neighbouring lines share a hunk."""
    groups: list[list[TextSpan]] = []
    for span in spans:
        row = bisect.bisect_right(starts, span.start) - 1
        if groups and row - (bisect.bisect_right(starts, groups[-1][-1].end) - 1) <= 2 * _CONTEXT:
            groups[-1].append(span)
        else:
            groups.append([span])
    return groups


def _hunk(original: str, starts: list[int], group: list[TextSpan], shift: int) -> tuple[str, int]:
    top = bisect.bisect_right(starts, group[0].start) - 1
    bottom = bisect.bisect_right(starts, group[-1].end) - 1
    low, high = max(top - _CONTEXT, 0), min(bottom + 1 + _CONTEXT, len(starts))
    begin, end = starts[low], starts[high] if high < len(starts) else len(original)
    moved = tuple(TextSpan(s.start - begin, s.end - begin, s.new) for s in group)
    old = original[begin:end].replace("\r\n", "\n")
    new = _joined(original[begin:end], moved).replace("\r\n", "\n")
    before, after = old.splitlines(), new.splitlines()
    head = _same(before, after)
    tail = _same(before[head:][::-1], after[head:][::-1])
    body = [f" {line}" for line in before[:head]]
    body += [f"-{line}" for line in before[head : len(before) - tail]]
    body += [f"+{line}" for line in after[head : len(after) - tail]]
    body += [f" {line}" for line in before[len(before) - tail :]]
    title = f"@@ -{low + 1},{len(before)} +{low + 1 + shift},{len(after)} @@"
    return "\n".join([title, *body]), shift + len(after) - len(before)


def _same(one: list[str], other: list[str]) -> int:
    count = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        count += 1
    return count
