"""How much of a tool's result the model sees: head, the last lines (more of them where they tell
something), and a mark that says how to get the rest.

Pure. A shortened text is never longer than its limit, mark included, so shortening twice changes nothing. Lines are
counted as `read` pages them: one that is very wide counts as several.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

import msgspec

from palinurus.core.types.messages import ImageBlock, Message, TextBlock, ToolResult
from palinurus.patterns import compile_late

USUAL_RESULT_CHARS = 16_000  # characters of one result
BY_WINDOW: tuple[tuple[int, int], ...] = ((200_000, 64_000), (100_000, 32_000))  # tokens of the window, characters
WINDOW_SHARE = 0.3  # of the window, at most, for one result
LEAST = 2000  # characters always left to a result
TOGETHER = 2  # results of one answer share so many times the room of one
PAGE_WIDTH = 2000  # characters of a line as `read` pages results
HANDLE_PREFIX = "result:"
_MARK = 200  # characters of the longest mark
_TAILS = {True: (0.3, 4000), False: (0.1, 1000)}  # does the end tell something -> its share, characters at most
_MAX_JSON = 2_000_000
_PROBE = 4096
_CONTROL = compile_late(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufffd]")
# Begins only where a run of these characters does, so that hostile texts take no longer than others.
_BLOB = compile_late(r"(?<![A-Za-z0-9+/])(?:data:[\w.+/-]{1,80};base64,)?[A-Za-z0-9+/]{1500,}={0,2}")
_TELLS = compile_late(
    r"(?:(?:error|exception)s?|\b(?:failed|failure|fatal|traceback|panic|denied|not found|timed out|exit(?:ed)?"
    r"(?: with)? (?:code|status)|errno|warning|total|summary|result|passed|completed?|finished|done))\b",
    re.I,
)
_KNOWN = compile_late(r'path="result:([0-9a-f]{16})"')


def limit_result_chars(window: int, wanted: int | None = None) -> int:
    """Characters of one result in a window of so many tokens. `wanted` is contextLimits.toolResultMaxChars."""
    usual = next((chars for least, chars in BY_WINDOW if window >= least), USUAL_RESULT_CHARS)
    most = int(window * 4 * WINDOW_SHARE) if window > 0 else usual
    return max(LEAST, min(wanted or usual, most))


def share_result_chars(limit: int, calls: int) -> int:
    """Characters of each of the results that one answer's calls bring back together."""
    return limit if calls <= TOGETHER else max(LEAST, min(limit, limit * TOGETHER // calls))


def make_result_handle(text: str) -> str:
    """The name a full result is kept under: the same text has the same one."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def indent_json(text: str) -> str:
    """JSON that was written in one piece, in lines; anything else as it is."""
    if text.lstrip()[:1] not in ("{", "[") or len(text) > _MAX_JSON or "\n" in text[:400]:
        return text
    try:
        return msgspec.json.format(text, indent=2)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return text


def is_binary(text: str) -> bool:
    """True if text is no text: over a tenth of its beginning is control characters or undecodable."""
    probe = text[:_PROBE]
    return not probe.isprintable() and len(_CONTROL.findall(probe)) * 10 > len(probe)


def shorten_result(text: str, limit: int, kept: str = "") -> str:
    """`text` within `limit` characters. `kept` is the handle under which exactly this text is kept.

    Long stretches of base64 are summarised first: they are what a reader misses least.
    """
    limit = max(limit, 2 * _MARK)
    if len(text) <= limit:
        return text
    bare = _summarised(text)
    if len(bare.text) <= limit - _MARK:
        return f"{bare.text}\n{_mark(bare.gone, kept, 1)}"
    room = limit - _MARK
    share, most = _TAILS[_matters(bare.text)]
    tail = min(int(room * share), most)
    head_end = _line_end(bare.text, room - tail)
    tail_start = _line_start(bare.text, len(bare.text) - tail)
    gone = len(text) - head_end - (len(bare.text) - tail_start)
    mark = _mark(gone, kept, find_page_line(text, bare.origin(head_end)))
    end = f"\n{bare.text[tail_start:]}" if tail_start < len(bare.text) else ""
    return f"{bare.text[:head_end]}\n{mark}{end}"


def find_result_handle(text: str) -> str:
    """The handle a shortened text names; "" if none."""
    found = _KNOWN.search(text)
    return found[1] if found else ""


def make_read_hint(kept: str, line: int | None = None) -> str:
    """How the model gets at a full result."""
    at = "" if line is None else f" offset={line}"
    return f'read path="{HANDLE_PREFIX}{kept}"{at}'


def shorten_results(messages: Sequence[Message], limit: int) -> tuple[Message, ...]:
    """The history with every result within `limit`: those of other programs, or of a model with a larger window."""
    long = [at for at, m in enumerate(messages) if type(m) is ToolResult and _chars(m) > limit]
    if not long:
        return tuple(messages)
    bounded = list(messages)
    for at in long:
        result = bounded[at]
        assert isinstance(result, ToolResult)
        bounded[at] = _bounded(result, limit)
    return tuple(bounded)


def split_pages(text: str) -> list[str]:
    """The lines by which `read` pages a result; joined they are the text."""
    parts = text.split("\n")
    lines = [part + "\n" for part in parts[:-1]] + [parts[-1]]
    return [line[at : at + PAGE_WIDTH] for line in lines for at in range(0, len(line), PAGE_WIDTH)]


def find_page_line(text: str, index: int) -> int:
    """The number, from 1, of the page line that the character at `index` is in."""
    before = split_pages(text[:index])
    return max(1, len(before) + (not before or before[-1].endswith("\n") or len(before[-1]) == PAGE_WIDTH))


class _Bare(msgspec.Struct, frozen=True):
    """A text with its blobs summarised; `cuts` are (position after a summary, characters fewer than before)."""

    text: str
    cuts: tuple[tuple[int, int], ...] = ()

    @property
    def gone(self) -> int:
        return self.cuts[-1][1] if self.cuts else 0

    def origin(self, index: int) -> int:
        """Where a position was in the text before."""
        return index + next((fewer for end, fewer in reversed(self.cuts) if end <= index), 0)


def _summarised(text: str) -> _Bare:
    found = [(m.start(), m.end()) for m in _BLOB.finditer(text)]
    if not found:
        return _Bare(text)
    parts: list[str] = []
    cuts: list[tuple[int, int]] = []
    last = size = 0
    for start, end in found:
        parts += (text[last:start], f"[base64 data, {end - start} characters, not shown]")
        size += len(parts[-2]) + len(parts[-1])
        last = end
        cuts.append((size, end - size))
    return _Bare("".join([*parts, text[last:]]), tuple(cuts))


def _matters(text: str) -> bool:
    """Does the end say something? An error, a count, the end of JSON."""
    tail = text[-2000:]
    return tail.rstrip()[-1:] in ("}", "]") or _TELLS.search(tail) is not None


def _mark(gone: int, kept: str, line: int | None) -> str:
    if kept:
        return f"[… {gone} characters left out here, and kept: see them with {make_read_hint(kept, line)} …]"
    return f"[… {gone} characters left out here; ask for a smaller part …]"


def _line_end(text: str, at: int) -> int:
    """`at`, or the end of the line before it if that is near."""
    found = text.rfind("\n", at - at // 5, at)
    return at if found < 0 else found


def _line_start(text: str, at: int) -> int:
    found = text.find("\n", at, at + (len(text) - at) // 5)
    return at if found < 0 else found + 1


def _chars(result: ToolResult) -> int:
    return sum([len(block.text) for block in result.content if type(block) is TextBlock])


def _bounded(result: ToolResult, limit: int) -> ToolResult:
    text = "\n".join(block.text for block in result.content if isinstance(block, TextBlock))
    kept = find_result_handle(text)
    short = shorten_result(indent_json(text), limit)
    if kept and not find_result_handle(short):  # the mark of the first cut was cut away
        short = f"{shorten_result(text, limit - _MARK)}\n[The rest is kept; see it with {make_read_hint(kept)}]"
    images = [block for block in result.content if isinstance(block, ImageBlock)]
    return msgspec.structs.replace(result, content=(TextBlock(short), *images))
