"""Small blocks become one message when nobody is in a hurry, and messages keep a human pace. Decisions only: what
time it is and which number was drawn are handed in; the caller sleeps and sends.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from palinurus.core.stream.chunk import BlockSettings, BreakKind
from palinurus.core.types.outbound import Reply

JOINERS: dict[BreakKind, str] = {"paragraph": "\n\n", "newline": "\n", "sentence": " "}


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
