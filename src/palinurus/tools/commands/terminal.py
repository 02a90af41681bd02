"""A pseudo-terminal for a child: its size, making it the child's own, answers to what programs ask terminals, and keys
by name as the bytes a terminal sends for them (the table is xterm's).

Knows handles and escape sequences; knows no process.
"""

from __future__ import annotations

import os
import pty
import re
import sys
import termios

import msgspec

from palinurus.patterns import compile_late

COLUMNS, ROWS = 120, 30
TERM = "xterm-256color"
SETSID = "/usr/bin/setsid"
# What was started in the background ignores Ctrl-C, and so would all it starts; in a terminal of its own it is heard.
_CODE = (
    "import fcntl,os,signal,sys,termios;os.setsid();fcntl.ioctl(0,termios.TIOCSCTTY,0);"
    "signal.signal(2,signal.SIG_DFL);signal.signal(3,signal.SIG_DFL);os.execv(sys.argv[1],sys.argv[1:])"
)
# Device status: "where is the cursor?" (CSI 6 n, also with ?) and "are you there?" (CSI 5 n).
_QUERY = compile_late(rb"\x1b\[(\??)([56])n")
_CUT = compile_late(rb"\x1b(?:\[\??[56]?)?\Z")
_MAX_CUT = 4
KEY_BYTES: dict[str, bytes] = {
    "enter": b"\r", "return": b"\r", "cr": b"\r", "tab": b"\t", "escape": b"\x1b", "esc": b"\x1b", "space": b" ",
    "backspace": b"\x7f", "bspace": b"\x7f", "bs": b"\x7f", "btab": b"\x1b[Z", "up": b"\x1b[A", "down": b"\x1b[B",
    "right": b"\x1b[C", "left": b"\x1b[D", "home": b"\x1b[H", "end": b"\x1b[F", "insert": b"\x1b[2~", "ic": b"\x1b[2~",
    "delete": b"\x1b[3~", "del": b"\x1b[3~", "dc": b"\x1b[3~", "pageup": b"\x1b[5~", "pgup": b"\x1b[5~",
    "ppage": b"\x1b[5~", "pagedown": b"\x1b[6~", "pgdn": b"\x1b[6~", "npage": b"\x1b[6~",
    "f1": b"\x1bOP", "f2": b"\x1bOQ", "f3": b"\x1bOR", "f4": b"\x1bOS", "f5": b"\x1b[15~", "f6": b"\x1b[17~",
    "f7": b"\x1b[18~", "f8": b"\x1b[19~", "f9": b"\x1b[20~", "f10": b"\x1b[21~", "f11": b"\x1b[23~", "f12": b"\x1b[24~",
}  # fmt: skip
PASTE_START, PASTE_END = b"\x1b[200~", b"\x1b[201~"  # around pasted text
_MODIFIED = compile_late(r"((?:[CMScms]-)+)(.+)", re.DOTALL)
_CARET = compile_late(r"\^([A-Za-z@\[\\\]^_?])")
_HEX = compile_late(r"(?:0x|\\x)?([0-9a-fA-F]{2})")
_CURSOR = compile_late(rb"\x1b(?:\[|O)([A-DHFP-S])")
_TILDE = compile_late(rb"\x1b\[(\d+)~")


class KeyBytes(msgspec.Struct, frozen=True):
    data: bytes
    unknown: tuple[str, ...] = ()  # tokens that are no key: sent as text


def encode_keys(tokens: list[str]) -> KeyBytes:
    """The bytes of all tokens, one after another. A token is a name (`Enter`, `Up`, `F5`), a character, or one with
    modifiers: `C-c`, `^C`, `M-x`, `S-Tab`, `C-M-Left`. What is none of these is sent as it is written, and said so."""
    data, unknown = bytearray(), []
    for token in tokens:
        found = encode_key(token)
        if found is None:
            unknown.append(token)
            found = token.encode("utf-8", "replace")
        data += found
    return KeyBytes(bytes(data), tuple(unknown))


def encode_key(token: str) -> bytes | None:
    """The bytes of one token, None if it is no key."""
    if len(token) == 1:
        return token.encode("utf-8", "replace")
    plain = KEY_BYTES.get(token.lower())
    if plain is not None:
        return plain
    caret = _CARET.fullmatch(token)
    if caret:
        return _control(caret[1])
    modified = _MODIFIED.fullmatch(token)
    return _modified(set(modified[1].upper()) - {"-"}, modified[2]) if modified else None


def _modified(modifiers: set[str], name: str) -> bytes | None:
    base = name.encode("utf-8", "replace") if len(name) == 1 else KEY_BYTES.get(name.lower())
    if base is None:
        return None
    if modifiers == {"S"} and base == b"\t":
        return KEY_BYTES["btab"]
    number = 1 + ("S" in modifiers) + 2 * ("M" in modifiers) + 4 * ("C" in modifiers)
    cursor, tilde = _CURSOR.fullmatch(base), _TILDE.fullmatch(base)
    if cursor:
        return b"\x1b[1;%d%s" % (number, cursor[1])
    if tilde:
        return b"\x1b[%s;%d~" % (tilde[1], number)
    data: bytes | None = base.upper() if "S" in modifiers else base
    if "C" in modifiers:
        data = _control(" " if name.lower() == "space" else name)
    return b"\x1b" + data if data is not None and "M" in modifiers else data


def _control(name: str) -> bytes | None:
    """Ctrl and a character; None where a terminal has no byte for it."""
    if name == "?":
        return b"\x7f"
    if name in (" ", "@"):
        return b"\x00"
    code = ord(name.upper()) if len(name) == 1 else 0
    return bytes([code & 0x1F]) if 0x40 <= code <= 0x5F else None


def from_hex(tokens: list[str]) -> bytes | str:
    """`1b`, `0x1b`, `\\x1b` -> bytes, or what is wrong with them."""
    data = bytearray()
    for token in tokens:
        for piece in token.replace(",", " ").split():
            found = _HEX.fullmatch(piece)
            if not found:
                return f"{piece[:20]!r} is no hex byte; write two digits, such as 1b"
            data.append(int(found[1], 16))
    return bytes(data)


def encode_paste(text: str, *, bracketed: bool) -> bytes:
    """Text as a paste. The marks cannot be closed from inside."""
    data = text.encode("utf-8", "replace")
    if not bracketed:
        return data
    while PASTE_END in data or PASTE_START in data:
        data = data.replace(PASTE_END, b"").replace(PASTE_START, b"")
    return PASTE_START + data + PASTE_END


def open_terminal() -> tuple[int, int]:
    """The two ends, ours first. Raises OSError where there are no terminals."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (ROWS, COLUMNS))
    return ours, theirs


def make_owner_command() -> tuple[str, ...]:
    """What stands before a command: it makes a session whose own terminal is the one on handle 0, so that Ctrl-C
    reaches it and /dev/tty is there. A program, because code between fork and exec is not safe beside threads."""
    return (SETSID, "-c") if os.path.exists(SETSID) else (sys.executable, "-I", "-S", "-c", _CODE)


def has_terminals() -> bool:
    """Are there terminals here?"""
    try:
        ours, theirs = pty.openpty()
    except OSError:
        return False
    os.close(ours)
    os.close(theirs)
    return True


class TerminalAnswers:
    """Feed what the child prints; returns what a terminal would reply. A query may be cut anywhere."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> bytes:
        if b"\x1b" not in data and not self._rest:
            return b""
        data = self._rest + data
        cut = _CUT.search(data[-_MAX_CUT:])
        self._rest = cut[0] if cut else b""
        return b"".join(
            b"\x1b[0n" if kind == b"5" else b"\x1b[" + private + b"1;1R" for private, kind in _QUERY.findall(data)
        )
