"""What a child printed and nobody has read yet: bounded, handed out once, never in the middle of a character or of an
escape sequence. No I/O."""

from __future__ import annotations

import re

from palinurus.tools.output import clean_output, is_binary

MAX_UNREAD = 30_000  # bytes; older ones go first
_OPEN = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]{0,200}|[PX^_][^\x1b]{0,200})?\Z")
_REACH = 256


class UnreadOutput:
    """Feed bytes, `take` text."""

    def __init__(self) -> None:
        self._data = bytearray()
        self.lost = 0  # bytes dropped since the last `take`

    def __bool__(self) -> bool:
        return bool(self._data)

    def feed(self, data: bytes) -> None:
        self._data += data
        over = len(self._data) - MAX_UNREAD
        if over > 0:
            del self._data[:over]
            self.lost += over

    def take(self, *, last: bool = False) -> str:
        """All that came since, readable. What may still become a character or a sequence stays, unless it is the
        `last` time."""
        data, lost = bytes(self._data), self.lost
        keep = 0 if last else _unfinished(data)
        self._data = bytearray(data[len(data) - keep :])
        self.lost = 0
        data = data[: len(data) - keep]
        if is_binary(data):
            return f"[binary output, {len(data) + lost} bytes]"
        text = clean_output(_from_start(data, lost).decode("utf-8", "replace"))
        return f"[… {lost} bytes left out …]\n{text}" if lost else text


def _from_start(data: bytes, lost: int) -> bytes:
    """Without the rest of a character whose beginning was dropped."""
    at = 0
    while lost and at < min(3, len(data)) and data[at] & 0xC0 == 0x80:
        at += 1
    return data[at:]


def _unfinished(data: bytes) -> int:
    """How many bytes at the end belong to something that is not complete."""
    found = _OPEN.search(data, max(0, len(data) - _REACH))
    if found:
        return len(found[0])
    for back in range(1, min(4, len(data) + 1)):
        byte = data[-back]
        if byte >= 0xC0:
            size = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return back if back < size else 0
        if byte < 0x80:
            return 0
    return 0
