"""HTTP/1.1 answers, taken apart as they arrive: head, body by length, in chunks or until the end. Pure.

Made for streams of many small chunks: those that arrive together cost one look each and are handed on together.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from functools import lru_cache

HEAD_BYTES = 65_536
LINE_BYTES = 4096  # the size of a chunk with its extensions, a trailer
UNPACKED = 1 << 20  # bytes that are unpacked at a time
_NO_BODY = (204, 304)
_CHUNKS = -1  # the length of a body that says it piece by piece
_OPEN = -2  # … of one that ends with the connection
_WINDOWS = {"gzip": 47, "x-gzip": 47, "deflate": 47}  # of zlib: either header is taken


class BadAnswer(Exception):
    """That is no HTTP."""


class HttpAnswerParser:
    """One answer. `feed` until `done`, `take` what has come of its body. What is no HTTP raises BadAnswer."""

    def __init__(self) -> None:
        self.status = 0  # 0: its head has not come
        self.headers: Mapping[str, str] = {}  # names in lower case
        self.done = False
        self.keeps = False  # may the connection be used again?
        self._tail = b""  # not understood yet
        self._parts: list[bytes] = []
        self._left = 0  # bytes of the body, or of the chunk, that are to come
        self._kind = 0
        self._trailing = False  # the last chunk has come
        self._unpacker: zlib._Decompress | None = None

    @property
    def waiting(self) -> bool:
        """Is there something to take?"""
        return bool(self._parts)

    def feed(self, data: bytes) -> None:
        """More bytes. Raises BadAnswer."""
        if not self.status:
            data = self._tail + data
            while not self.status:  # words like "100 Continue" come before the answer
                head, found, data = data.partition(b"\r\n\r\n")
                if not found:
                    if len(head) > HEAD_BYTES or not b"HTTP/".startswith(head[:5]):
                        raise BadAnswer("no head of an answer")
                    self._tail = head
                    return
                self._read_head(head)
            self._tail = b""
        if self.done:
            self.keeps = self.keeps and not data
        elif self._kind == _CHUNKS:
            self._feed_chunks(self._tail + data if self._tail else data)
        elif self._kind == _OPEN:
            self._parts += [data] if data else []
        else:
            if data:
                self._parts.append(data[: self._left])
            self.keeps = self.keeps and len(data) <= self._left
            self._left -= min(self._left, len(data))
            self.done = not self._left

    def end(self) -> bool:
        """The connection has ended: was the answer whole?"""
        self.keeps = False
        self.done = self.done or (self._kind == _OPEN and bool(self.status))
        return self.done

    def take(self) -> bytes:
        """What has come of the body since. Raises BadAnswer when it cannot be unpacked."""
        data, self._parts = b"".join(self._parts), []
        if self._unpacker is None or not data:
            return data
        try:
            out = self._unpacker.decompress(data, UNPACKED)
        except zlib.error:
            raise BadAnswer("cannot be unpacked") from None
        if self._unpacker.unconsumed_tail:
            self._parts = [self._unpacker.unconsumed_tail]
        return out

    def _read_head(self, head: bytes) -> None:
        first, *lines = head.decode("latin-1").split("\r\n")
        version, _, rest = first.partition(" ")
        if version not in ("HTTP/1.1", "HTTP/1.0") or not (rest[:3].isdecimal() and len(rest[:3]) == 3):
            raise BadAnswer("no status line")
        status = int(rest[:3])
        if 100 <= status < 200 and status != 101:
            return
        headers: dict[str, str] = {}
        for line in lines:
            name, found, value = line.partition(":")
            if not found or not name or name != name.strip():
                raise BadAnswer("no header")
            name, value = name.lower(), value.strip()
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        self.status, self.headers = status, headers
        self._kind = self._left = _measure_body(status, headers)
        self.done = self._left == 0
        close = headers.get("connection", "").lower()
        self.keeps = (version == "HTTP/1.1" and "close" not in close) or "keep-alive" in close
        self.keeps = self.keeps and self._kind != _OPEN and status != 101
        if self._kind == _CHUNKS:
            self._left = 0
        if window := _WINDOWS.get(headers.get("content-encoding", "").lower()):
            self._unpacker = zlib.decompressobj(window)

    def _feed_chunks(self, data: bytes) -> None:
        """Each is its size in a line, itself, and the end of a line."""
        at, left, parts = 0, self._left, self._parts
        while True:
            if left > 2:
                piece = data[at : at + left - 2]
                if piece:
                    parts.append(piece)
                at += len(piece)
                left -= len(piece)
            if left:
                if left > 2 or len(data) < at + 2:
                    break
                if not data.startswith(b"\r\n", at):
                    raise BadAnswer("a chunk is longer than it says")
                at, left = at + 2, 0
            end = data.find(b"\r\n", at)
            if end < 0 or end > at + LINE_BYTES:
                if len(data) - at > LINE_BYTES:
                    raise BadAnswer("no chunk")
                break
            line, at = data[at:end], end + 2
            if self._trailing:
                self.done = not line
                if self.done:
                    self.keeps = self.keeps and at == len(data)
                    break
                continue
            size = _read_size(line)
            self._trailing = not size
            left = size + 2 if size else 0
        self._tail, self._left = data[at:], left


@lru_cache(256)
def _read_size(line: bytes) -> int:
    number = line.partition(b";")[0].strip()
    if not number.isalnum():
        raise BadAnswer("no size of a chunk")
    try:
        return int(number, 16)
    except ValueError:
        raise BadAnswer("no size of a chunk") from None


def _measure_body(status: int, headers: Mapping[str, str]) -> int:
    if status in _NO_BODY:
        return 0
    if "transfer-encoding" in headers:
        return _CHUNKS if headers["transfer-encoding"].lower().endswith("chunked") else _OPEN
    length = headers.get("content-length")
    if length is None:
        return _OPEN
    if not length.isdecimal() or len(length) > 18:  # of more digits no number is made
        raise BadAnswer("no length")
    return int(length)
