"""Server-sent events as a machine without I/O: `feed` bytes, get events; `close` gives what was left.

Knows the line grammar of the format and two limits. Knows nothing of what the events mean. It never raises:
when a limit is passed `failed` says which, and nothing more comes out.
"""

from __future__ import annotations

from typing import TypeAlias

MAX_LINE = 8_000_000  # bytes of one line, and of all data lines of one event

_FIELDS = (b"data", b"event", b"id", b"retry")  # the beginning of one is a cut stream, not another format

Event: TypeAlias = tuple[str, bytes]  # event name ("" when none was given), data


class SseReader:
    """One stream. Most chunks are whole events of one `data:` line, and take the short way."""

    __slots__ = ("_cr", "_data", "_fresh", "_limit", "_name", "_pieces", "_size", "_weight", "failed", "odd")

    def __init__(self, limit: int = MAX_LINE) -> None:
        self.failed: str | None = None
        self.odd = b""  # the first line that is no field of the format: a page or an error in the wrong place
        self._limit = limit
        self._fresh = True
        self._cr = False  # the last byte was a CR: an LF that follows belongs to it
        self._pieces: list[bytes] = []  # the unfinished line
        self._size = 0  # its length so far
        self._name = ""
        self._data: list[bytes] = []
        self._weight = 0  # bytes in _data, line ends included

    def feed(self, data: bytes) -> list[Event]:
        """The events these bytes complete."""
        if self.failed is not None or not data:
            return []
        if self._cr or b"\r" in data:
            data = self._lf(data)
        out: list[Event] = []
        if self._fresh and not self._pieces:
            self._fresh = data[:1] == b"\xef"  # of a byte order mark
        if self._fresh or self._pieces or self._data or self._name or len(data) > self._limit:
            return self._lines(data, out)
        head, end, tail = data.rpartition(b"\n\n")
        if end:
            for part in head.split(b"\n\n"):
                if part[:6] == b"data: " and b"\n" not in part:
                    out.append(("", part[6:]))
                else:
                    self._part(part, out)
        return self._lines(tail, out) if tail else out

    def close(self) -> list[Event]:
        """The stream has ended: the last event even if its blank line is missing."""
        out: list[Event] = []
        if self.failed is None:
            self._lines(b"\n\n", out)
        return out

    def _lf(self, data: bytes) -> bytes:
        if self._cr and data[:1] == b"\n":
            data = data[1:]
            if not data:
                self._cr = False
                return data
        self._cr = data[-1:] == b"\r"
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _part(self, part: bytes, out: list[Event]) -> None:
        """One event without its blank line, from a buffer that has no other state."""
        if part[:7] == b"event: ":
            end = part.find(b"\n", 7)
            if end > 0 and part[end : end + 7] == b"\ndata: " and part.find(b"\n", end + 7) < 0:
                out.append((str(part[7:end], "utf-8", "replace"), part[end + 7 :]))
                return
        self._lines(part + b"\n\n", out)

    def _lines(self, data: bytes, out: list[Event]) -> list[Event]:
        *lines, rest = data.split(b"\n")
        for line in lines:
            if self._pieces:
                self._pieces.append(line)
                line = b"".join(self._pieces)
                self._pieces.clear()
                self._size = 0
            if self._fresh:
                self._fresh = False
                line = line.removeprefix(b"\xef\xbb\xbf")
            if len(line) > self._limit and line[:1] != b":":
                self.failed = f"a line of more than {self._limit} bytes"
                return out
            if line:
                self._field(line)
                if self.failed is not None:
                    return out
            else:
                self._dispatch(out)
        if rest:
            self._keep(rest)
        return out

    def _keep(self, rest: bytes) -> None:
        """The beginning of a line whose end has not come. Of a comment nothing is kept but its mark."""
        if (self._pieces[0] if self._pieces else rest)[:1] == b":":
            self._pieces = [b":"]
            return
        self._size += len(rest)
        if self._size > self._limit:
            self.failed = f"a line of more than {self._limit} bytes"
        else:
            self._pieces.append(rest)

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        if value[:1] == b" ":
            value = value[1:]
        if name == b"data":
            self._data.append(value)
            self._weight += len(value) + 1
            if self._weight > self._limit and len(self._data) > 1:
                self.failed = f"an event of more than {self._limit} bytes"
        elif name == b"event":
            self._name = str(value, "utf-8", "replace")
        elif name and not self.odd and not any(field.startswith(name) for field in _FIELDS):
            self.odd = line[:4096]

    def _dispatch(self, out: list[Event]) -> None:
        if self._data:
            out.append((self._name, self._data[0] if len(self._data) == 1 else b"\n".join(self._data)))
            self._data.clear()
            self._weight = 0
        self._name = ""
