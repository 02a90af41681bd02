"""What a command printed, in bounded memory: what is still to be read, and all of it as head and tail. No I/O."""

from __future__ import annotations

from palinurus.patterns import compile_late

MAX_UNREAD = 30_000  # bytes; older ones go first
_OPEN = compile_late(rb"\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]{0,200}|[PX^_][^\x1b]{0,200})?\Z")
_REACH = 256
MAX_KEPT = 1_000_000  # bytes
_HEAD = 50_000
_TAIL = MAX_KEPT - _HEAD
_ESCAPES = compile_late(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|\x1b\][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)?"  # OSC: title, clipboard, links
    r"|\x1b[PX^_][^\x1b]{0,4096}(?:\x1b\\)?"
    r"|\x1b[ -/]*[0-~]?"
)
_CONTROLS = compile_late(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_LINE_END = compile_late(r"\r+\n?")
_ODD = tuple(b for b in range(32) if b not in (7, 8, 9, 10, 12, 13, 27))


class UnreadOutput:
    """What nobody has read yet. Feed bytes, `take` text: once, never in the middle of a character or a sequence."""

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
        text = clean_output((_whole(data) if lost else data).decode("utf-8", "replace"))
        return f"[… {lost} bytes left out …]\n{text}" if lost else text


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


class OutputBuffer:
    """Feed bytes; memory stays flat whatever comes."""

    def __init__(self) -> None:
        self.total = 0
        self._head = bytearray()
        self._tail = bytearray()

    def feed(self, data: bytes) -> None:
        self.total += len(data)
        room = _HEAD - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._tail += data[-_TAIL:]
            if len(self._tail) > _TAIL + _TAIL // 4:
                del self._tail[:-_TAIL]

    def text(self) -> str:
        """Head and tail as readable text, with a mark for what is missing; binary output is only described."""
        head, tail = bytes(self._head), bytes(self._tail[-_TAIL:])
        gone = self.total - len(head) - len(tail)
        if is_binary(head):
            return f"[binary output, {self.total} bytes; begins {head[:24].hex(' ')}]"
        if gone <= 0:
            return clean_output((head + tail).decode("utf-8", "replace"))
        ending = _whole(tail).decode("utf-8", "replace")
        mark = f"[… {gone} bytes left out, and not kept: send long output to a file …]"
        return f"{clean_output(_cut_end(head))}\n{mark}\n{clean_output(ending)}"

    def tail(self, size: int = 2000) -> str:
        """The last `size` characters or fewer."""
        data = (
            bytes(self._tail[-4 * size :])
            if len(self._tail) >= 4 * size
            else bytes(self._head + self._tail)[-4 * size :]
        )
        return "" if is_binary(data) else clean_output(_whole(data).decode("utf-8", "replace"))[-size:]


def is_binary(data: bytes) -> bool:
    """True if over a tenth of the beginning is control bytes (escape sequences do not count)."""
    probe = data[:4096]
    odd = sum(probe.count(byte) for byte in _ODD)
    return odd * 10 > len(probe)


def clean_output(text: str) -> str:
    """Without escape sequences and control characters; line ends as \\n."""
    if text.isprintable():
        return text
    text = _ESCAPES.sub("", text) if "\x1b" in text else text
    text = _LINE_END.sub("\n", text) if "\r" in text else text
    return _CONTROLS.sub("", text)


def _whole(data: bytes) -> bytes:
    """Without the end of a character that was cut at the front."""
    start = 0
    while start < min(3, len(data)) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:]


def _cut_end(data: bytes) -> str:
    """Without the beginning of a character that was cut at the back."""
    return data.decode("utf-8", "replace").removesuffix("\ufffd")
