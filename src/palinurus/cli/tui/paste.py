"""What is pasted: long text stands in the box as one mark, a picture (its path, or the clipboard's) goes along."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import mimetypes
import os
import re
import shutil
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote

from palinurus.core.text import format_count
from palinurus.files import read_plain_file
from palinurus.patterns import compile_late

LINES, CHARS = 10, 1000  # of text that is still shown whole
BYTES = 20 * 1024 * 1024  # of a picture; the gateway takes no more
SECONDS = 3.0  # for the program that reads the clipboard
PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")

# Who reads the clipboard of this machine, where the variable is set. Of terminals only kitty hands pictures over; on a
# Mac the last one does, in iTerm2 and elsewhere.
READERS = (
    ("WAYLAND_DISPLAY", "wl-paste", ("--no-newline", "--type", "image/png")),
    ("DISPLAY", "xclip", ("-selection", "clipboard", "-t", "image/png", "-o")),
    ("TERM_PROGRAM", "pngpaste", ("-",)),
    ("TERM_PROGRAM", "osascript", ("-e", "the clipboard as «class PNGf»")),
)
_HEX = compile_late(rb"data PNGf((?:[0-9A-F]{2})+)\xc2\xbb")  # how osascript prints it


class PasteShelf:
    """What the marks in the box stand for."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._pictures: dict[str, dict[str, Any]] = {}

    def fold(self, text: str) -> str:
        """The text itself, or its mark."""
        lines = text.count("\n") + (not text.endswith("\n"))
        if lines <= LINES and len(text) <= CHARS:
            return text
        mark = f"[pasted {len(self._texts) + 1}: {format_count(lines, 'line')}, {format_count(len(text), 'character')}]"
        self._texts[mark] = text
        return mark

    def add_picture(self, name: str, data: bytes, mime: str) -> str:
        """Its mark."""
        mark = f"[picture {len(self._pictures) + 1}: {name}]"
        content = base64.b64encode(data).decode("ascii")
        self._pictures[mark] = {"type": "image", "mimeType": mime, "fileName": name, "content": content}
        return mark

    def expand(self, text: str) -> str:
        """With what was pasted where its marks stand."""
        for mark, whole in self._texts.items():
            text = text.replace(mark, whole)
        return text

    def take_pictures(self, text: str) -> list[dict[str, Any]]:
        """The pictures whose marks are in it, as chat.send takes them."""
        return [picture for mark, picture in self._pictures.items() if mark in text]

    def clear(self) -> None:
        """The marks of a new message begin with 1."""
        self._texts.clear()
        self._pictures.clear()


def find_picture(text: str) -> str:
    """The path that a terminal pastes when a picture is dropped on it (quoted, escaped, as file://); else ""."""
    word = text.strip()
    if "\n" in word or len(word) > 4096:
        return ""
    if len(word) > 1 and word[0] == word[-1] and word[0] in "'\"":
        word = word[1:-1]
    path = unquote(word.removeprefix("file://")) if word.startswith("file://") else word.replace("\\ ", " ")
    path = os.path.expanduser(path)
    return path if os.path.isabs(path) and _guess(path) in PICTURES and os.path.isfile(path) else ""


def _guess(path: str) -> str:
    return mimetypes.guess_type(path)[0] or ""


def load_picture(path: str) -> tuple[str, bytes, str]:
    """Its name, content and kind. Raises OSError."""
    return os.path.basename(path), read_plain_file(path, BYTES), _guess(path)


async def read_clipboard_picture(environ: Mapping[str, str]) -> bytes:
    """The picture in the clipboard of this machine as PNG; b"" if there is none, or nobody who could tell."""
    for variable, name, arguments in READERS:
        program = shutil.which(name, path=environ.get("PATH")) if environ.get(variable) else None
        if program is None:
            continue
        quiet = asyncio.subprocess.DEVNULL
        child = await asyncio.create_subprocess_exec(
            program, *arguments, stdin=quiet, stdout=asyncio.subprocess.PIPE, stderr=quiet, env=dict(environ)
        )
        try:
            async with asyncio.timeout(SECONDS):
                data, _ = await child.communicate()
        except TimeoutError:
            child.kill()
            continue
        if not data.startswith(b"\x89PNG") and (found := _HEX.search(data[: 3 * BYTES])):
            data = bytes.fromhex(found[1].decode())
        if child.returncode == 0 and data.startswith(b"\x89PNG"):
            return data
    return b""


# kitty's clipboard protocol (OSC 5522): the terminal itself hands over a picture, also through SSH, if its user allows.
ASK_PICTURE = f"\x1b]5522;type=read;{base64.b64encode(b'image/png').decode()}\x1b\\"
_REPLY = compile_late(r"\x1b\]5522;([^;\x07\x1b]*);?([^\x07\x1b]*)(?:\x07|\x1b\\)")
_BEGIN = "\x1b]5522;"


class ClipboardReplies:
    """Takes the terminal's replies out of what is typed, once something was asked; `feed` gives the rest. `tell` gets
    the picture, b"" if there is none or the user said no."""

    def __init__(self) -> None:
        self._tell: Callable[[bytes], object] | None = None
        self._held, self._data = "", b""

    def ask(self, tell: Callable[[bytes], object] | None) -> None:
        """From now on replies are ours; None: they come too late."""
        self._tell, self._data = tell, b""

    def feed(self, text: str) -> str:
        """What is left for others."""
        if self._tell is None and not self._held:
            return text
        text = _REPLY.sub(self._take, self._held + text)
        at = text.find(_BEGIN)
        if at < 0:  # the beginning of a reply may have come without its rest
            at = next((len(text) - n for n in range(len(_BEGIN) - 1, 0, -1) if text.endswith(_BEGIN[:n])), len(text))
        self._held = text[at:] if self._tell is not None else ""
        return text[:at] if self._held else text

    def _take(self, found: re.Match[str]) -> str:
        facts = dict(part.partition("=")[::2] for part in found[1].split(":"))
        status = facts.get("status", "")
        if status == "DATA" and len(self._data) < BYTES:
            with contextlib.suppress(ValueError):
                self._data += base64.b64decode(found[2])
        elif status != "OK" and self._tell is not None:  # DONE, or why not
            self._tell(self._data if status == "DONE" and self._data.startswith(b"\x89PNG") else b"")
            self._tell = None
        return ""
