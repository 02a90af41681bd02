"""Long text in blocks of a readable size, while it still grows. A machine: the same blocks however the text came.

A block ends at the first preferred break at or behind the minimum. If there is none up to the maximum, at the last
break of another kind before it; a cut decided once would be the same with all the text in hand, since it looks at
the text from the block's start up to a fixed length and never at how much happens to be there. Code fences are cut
only if they are longer than a block; then they are closed, and opened again in the next. Small blocks become one
message when nobody is in a hurry.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Literal, TypeAlias

import msgspec

from palinurus.core.stream.code import FENCE_LOOKAHEAD, CodeFence, is_closing_fence, parse_fence
from palinurus.core.types.outbound import Reply
from palinurus.patterns import compile_late

BreakKind: TypeAlias = Literal["paragraph", "newline", "sentence"]

SLAB = 65_536  # characters that are taken at once: every block that is cut off copies what follows it
_SENTENCE = compile_late(r"[.!?][\"')\]]?(?=\s)|[。！？]")
_BLANK = compile_late(r"[ \t]*\n")
_ZWJ = "\u200d"
_JOIN = f"{_ZWJ}\ufe0f\ufe0e\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"
_EMPTY = compile_late(r"(?:[ \t]*\n)+")
_WANTED: dict[BreakKind, re.Pattern[str]] = {
    "paragraph": compile_late(r"\n[ \t]*\n"),
    "newline": compile_late(r"\n"),
    "sentence": _SENTENCE,
}
_ORDER: dict[BreakKind, tuple[BreakKind, ...]] = {
    "paragraph": ("paragraph", "newline", "sentence"),
    "newline": ("newline", "sentence"),
    "sentence": ("sentence", "newline"),
}
JOINERS: dict[BreakKind, str] = {"paragraph": "\n\n", "newline": "\n", "sentence": " "}


class BlockSettings(msgspec.Struct, frozen=True):
    """agents.defaults.blockStreamingChunk and blockStreamingBreak."""

    min_chars: int = 800
    max_chars: int = 1200
    prefer: BreakKind = "paragraph"
    at: Literal["text_end", "message_end"] = "text_end"  # as the text grows, or when the message is complete


USUAL_BLOCKS = BlockSettings()


class _Cut(msgspec.Struct, frozen=True):
    at: int
    fence: CodeFence | None = None  # the fence this cut goes through


class Chunker:
    def __init__(self, settings: BlockSettings = USUAL_BLOCKS) -> None:
        self._min = max(1, settings.min_chars)
        self._max = max(self._min, settings.max_chars)
        self._prefer = settings.prefer
        self._rest = ""
        self._fence: CodeFence | None = None  # the text goes on inside of it
        self._skip = True  # blank lines at the start of a block are dropped
        self._gap = False  # the one blank that stood at the cut is still to come, or to be dropped

    @property
    def pending(self) -> bool:
        """Is there text that has not been given out?"""
        return bool(self._rest.strip())

    def feed(self, text: str) -> list[str]:
        """The blocks that are complete now."""
        if len(text) > SLAB:
            return [block for at in range(0, len(text), SLAB) for block in self.feed(text[at : at + SLAB])]
        self._rest += text
        if len(self._rest) < self._min or not self._worth(text):
            return []
        return self._drain(final=False)

    def _worth(self, text: str) -> bool:
        """Can there be a cut? Looking for one costs more than this."""
        if len(self._rest) >= self._max + FENCE_LOOKAHEAD:
            return True
        if self._prefer != "sentence" and "\n" not in text:
            return False
        low = 0 if self._fence else max(0, self._min - 2)  # inside a fence the line that opens it counts
        return _WANTED[self._prefer].search(self._rest, low) is not None

    def close(self) -> list[str]:
        """The text has ended: all blocks that are left. The machine is as new afterwards."""
        made = self._drain(final=True)
        self.clear()
        return made

    def clear(self) -> None:
        """Forget what was not given out."""
        self._rest, self._fence, self._skip, self._gap = "", None, True, False

    def _drain(self, *, final: bool) -> list[str]:
        made: list[str] = []
        while self._rest:
            if self._skip and self._trim():
                break
            head = f"{self._fence.opening}\n" if self._fence else ""
            cut = _Finder(self._rest, self._fence, final=final).cut(
                max(1, self._min - len(head)), max(1, self._max - len(head)), self._prefer
            )
            if cut is None:
                break
            made.append(self._emit(head, cut))
        return [m for m in made if m.strip()]

    def _trim(self) -> bool:
        """Drop the blank at the cut, then blank lines. True while nothing but blanks is there."""
        if self._gap:
            self._gap, self._rest = False, self._rest[self._rest[:1].isspace() :]
        if found := _EMPTY.match(self._rest):
            self._rest = self._rest[found.end() :]
        blanks = len(self._rest) - len(self._rest.lstrip(" \t"))
        self._rest = self._rest[max(0, blanks - FENCE_LOOKAHEAD) :]
        if not self._rest or self._rest.isspace():
            return True
        self._skip = False
        return False

    def _emit(self, head: str, cut: _Cut) -> str:
        body, self._rest = self._rest[: cut.at], self._rest[cut.at :]
        self._fence = cut.fence
        if cut.fence is not None:
            return f"{head}{body}{'' if body.endswith(chr(10)) else chr(10)}{cut.fence.closing}\n"
        self._skip = self._gap = True
        return head + body


class _Finder:
    """Finds one cut in `text` (all there is, if `final`), which starts inside `fence` if that is not None."""

    def __init__(self, text: str, fence: CodeFence | None, *, final: bool) -> None:
        self._text = text
        self._fence = fence
        self._final = final
        self._inner: list[int] = []  # ends of the lines of the fence
        self._breaks: dict[BreakKind, list[int]] = {"paragraph": [], "newline": [], "sentence": []}

    def cut(self, low: int, high: int, prefer: BreakKind) -> _Cut | None:
        """The cut between `low` and `high`; None if more text is needed to tell."""
        text = self._text
        full = self._final or len(text) >= high + FENCE_LOOKAHEAD
        wanted = self._breaks[prefer]
        at = 0
        while at <= high and at < len(text):
            stop = text.find("\n", at)
            if stop < 0 and not full and text[at:].lstrip(" \t")[:1] in ("", "`", "~"):
                return None  # nobody knows yet what this line is
            end = stop if stop >= 0 else len(text)
            closed = self._line(at, end, high)
            if closed and at <= high < end:
                return _Cut(end)  # over the limit by a fence's end: no worse than cutting the fence
            if self._fence is None and stop >= 0 and end <= high:
                self._breaks["newline"].append(end)
                if _BLANK.match(text, end + 1, end + 1 + FENCE_LOOKAHEAD):
                    self._breaks["paragraph"].append(end)
            while wanted and wanted[0] < low:
                del wanted[0]
            if wanted:
                return _Cut(wanted[0])
            at = end + 1
        return self._other(low, high, prefer) if full else None

    def _line(self, at: int, end: int, high: int) -> bool:
        """Note where the line could be cut. True if it ends a fence."""
        text = self._text
        line = text[at : min(end, at + FENCE_LOOKAHEAD)]
        if self._fence is not None:
            closed = is_closing_fence(line, self._fence)
            self._fence = None if closed else self._fence
            self._inner = [] if closed else [*self._inner, end + 1]
            return closed
        self._fence = parse_fence(line)
        if self._fence is None:
            ends = (found.end() for found in _SENTENCE.finditer(text, at, min(end, high) + 1))
            self._breaks["sentence"] += [e for e in ends if e <= high]
        return False

    def _other(self, low: int, high: int, prefer: BreakKind) -> _Cut:
        """The wanted break did not come: the best of the others."""
        text = self._text
        if self._final and len(text) <= high:
            return _Cut(len(text))
        for kind in _ORDER[prefer]:
            if found := [b for b in self._breaks[kind] if b >= low]:
                return _Cut(found[-1])
        if self._fence is not None and self._inner:
            ends = [b for b in self._inner if low <= b <= high]
            return _Cut(ends[-1] if ends else _whole(text, high), self._fence)
        blank = max(text.rfind(c, low, high + 1) for c in " \t\n")
        return _Cut(blank if blank >= low else _whole(text, high))


def _whole(text: str, at: int) -> int:
    """A place at or before `at` that does not split what is seen as one character."""
    for here in range(at, max(1, at - 32), -1):
        after = text[here : here + 1]
        if not after or not (unicodedata.combining(after) or after in _JOIN or text[here - 1] == _ZWJ):
            return here
    return at


# --- messages at a human pace: what time it is and which number was drawn are handed in; the caller sleeps and sends --


class CoalesceSettings(msgspec.Struct, frozen=True):
    """agents.defaults.blockStreamingCoalesce; milliseconds and characters."""

    idle: int = 1000
    min_chars: int = 800
    max_chars: int = 1200
    joiner: str = "\n\n"
    every: bool = False  # each block is sent at once (chunkMode newline)

    @classmethod
    def beside(cls, blocks: BlockSettings, idle: int = 1000) -> CoalesceSettings:
        """What fits a chunker's settings."""
        return cls(min(max(idle, 0), 5000), blocks.min_chars, blocks.max_chars, JOINERS[blocks.prefer])


class Coalescer:
    """`add` blocks, `tick` when `due` has come, `close` at the end; each returns what is to be sent now, in order.

    A joined message keeps the client id of its first block.
    """

    def __init__(self, settings: CoalesceSettings) -> None:
        self._s = settings
        self._held: Reply | None = None
        self.due: int | None = None

    @property
    def first(self) -> str:
        """The client id of what is held; "" for nothing."""
        return self._held.client_id if self._held is not None else ""

    def add(self, reply: Reply, now: int) -> list[Reply]:
        """A block has come at `now` (milliseconds)."""
        held, out = self._held, []
        if held is not None:
            joined = f"{held.text}{self._s.joiner}{reply.text}"
            if _alike(held, reply) and len(joined) <= self._s.max_chars:
                reply = msgspec.structs.replace(held, text=joined)
            else:
                out = self.close()
        if self._s.every or reply.media or reply.kind != "block" or len(reply.text) >= self._s.max_chars:
            self._held = self.due = None
            return [*out, reply]
        self._held, self.due = reply, now + self._s.idle
        return out

    def tick(self, now: int) -> list[Reply]:
        """Idle long enough? A text that is still too short waits once more."""
        if self._held is None or self.due is None or now < self.due:
            return []
        if len(self._held.text) < self._s.min_chars:
            self.due = now + self._s.idle
            return []
        return self.close()

    def close(self) -> list[Reply]:
        """Whatever is held goes now."""
        out = [self._held] if self._held is not None else []
        self._held = self.due = None
        return out


def _alike(held: Reply, reply: Reply) -> bool:
    """May they be one message? One that answers nobody in particular goes with one that does."""
    same = (held.target, held.kind, held.voice) == (reply.target, reply.kind, reply.voice)
    return same and reply.reply_to in ("", held.reply_to) and not reply.media


class HumanDelay(msgspec.Struct, frozen=True):
    """agents.defaults.humanDelay: the pause before each block but the first."""

    mode: Literal["off", "natural", "custom"] = "off"
    min_ms: int = 800
    max_ms: int = 2500

    def pause(self, sent: int, drawn: float) -> int:
        """Milliseconds to wait before the next block; `sent` went before it, `drawn` is a number in [0, 1)."""
        if self.mode == "off" or sent == 0:
            return 0
        low, high = (800, 2500) if self.mode == "natural" else (self.min_ms, max(self.min_ms, self.max_ms))
        return low + int(drawn * (high - low + 1))
