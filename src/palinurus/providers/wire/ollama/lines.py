"""Lines of JSON as a machine without I/O: `feed` bytes, get whole lines; `close` gives what was left.

It never raises: past the limit `failed` says so and nothing more comes out.
"""

from __future__ import annotations

MAX_LINE = 8_000_000


def to_line(body: bytes) -> bytes:
    """A whole JSON answer as one line."""
    return body.replace(b"\r", b" ").replace(b"\n", b" ") + b"\n"


class OllamaLineReader:
    """One stream."""

    __slots__ = ("_limit", "_pieces", "_size", "failed")

    def __init__(self, limit: int = MAX_LINE) -> None:
        self.failed: str | None = None
        self._limit = limit
        self._pieces: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[bytes]:
        """The lines these bytes complete, without blank ones."""
        if self.failed is not None:
            return []
        *lines, rest = data.split(b"\n")
        out: list[bytes] = []
        for line in lines:
            if self._pieces:
                line = b"".join([*self._pieces, line])
                self._pieces.clear()
                self._size = 0
            if len(line) > self._limit:
                self.failed = f"a line of more than {self._limit} bytes"
                return out
            if line and not line.isspace():
                out.append(line)
        if rest:
            self._size += len(rest)
            self._pieces.append(rest)
            if self._size > self._limit:
                self.failed = f"a line of more than {self._limit} bytes"
        return out

    def close(self) -> list[bytes]:
        """The last line, if its end is missing."""
        return self.feed(b"\n") if self._pieces else []
