"""The prompt before there is a screen: drawn by hand where Textual will draw it, while Textual is being loaded.

What is typed shows at once and is kept, byte by byte, for the screen (`terminal.make_driver`), which gets it as if it
were typed then. Knows nothing but the terminal; loads nothing.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
import termios
import threading

from palinurus.patterns import compile_late

PLACEHOLDER = "Say something, / for commands, @ for files, F1 for keys"
ALTERNATE = "\x1b[?1049h"  # another screen than the shell's; what is written first
_PLAIN = "\x1b[?2004l\x1b[?1049l\x1b[?25h"
# What the background is, and a question that every terminal answers: nobody waits for one that knows only the second.
_QUESTION = "\x1b]11;?\x1b\\\x1b[c"
_ANSWERS = compile_late(rb"\x1b\]11;[^\x07\x1b]*(?:\x07|\x1b\\)|\x1b\[\?[\d;]*c")
_LAST = compile_late(rb"\x1b\[\?[\d;]*c")
ANSWER_SECONDS = 0.15


class EarlyPrompt:
    """A box to type in, once it is opened; whoever opens it closes it. `colours`: ask the terminal for its own."""

    def __init__(self, *, colours: bool, fd: int = 0, out: int = 2) -> None:
        self._fd, self._out = fd, out
        self._heard = b""
        self._answered = threading.Event()
        self._asked = colours
        self.ready = threading.Event()  # set when the box of the screen has the keys
        self.mode = termios.tcgetattr(fd)  # the terminal's, as it was
        self._wake, self._waker = os.pipe()
        self._thread: threading.Thread | None = threading.Thread(target=self._read, name="early-keys", daemon=True)
        width, height = os.get_terminal_size(out)
        self._width, self._height = width or 80, height or 24  # one that has no size yet

    def open(self) -> None:
        """Draw it, and listen."""
        mode = termios.tcgetattr(self._fd)
        mode[0] &= ~(termios.ICRNL | termios.INLCR | termios.IGNCR | termios.IXON)  # Enter is \r, as for the screen
        mode[3] &= ~(termios.ECHO | termios.ICANON)  # Ctrl-C stays a signal: nobody else would hear it
        mode[6][termios.VMIN], mode[6][termios.VTIME] = 1, 0
        termios.tcsetattr(self._fd, termios.TCSANOW, mode)
        self._write(ALTERNATE + "\x1b[2J\x1b[?2004h" + f"\x1b[{self._height - 2};1H" + "\u2500" * self._width)
        self._draw()
        self._write(_QUESTION if self._asked else "")
        if self._thread is not None:
            self._thread.start()

    @property
    def background(self) -> str:
        """What the terminal said its background is; "" if it did not say. Waits for the answer a little."""
        if self._asked:
            self._answered.wait(ANSWER_SECONDS)
        found = _ANSWERS.search(self._heard)
        return found.group().decode("ascii", "replace") if found else ""

    def take(self) -> str:
        """What was typed; from now on somebody else listens."""
        thread, self._thread = self._thread, None
        if thread is not None:
            os.write(self._waker, b".")
            if thread.is_alive():
                thread.join()
            os.close(self._wake)
            os.close(self._waker)
        typed, self._heard = _ANSWERS.sub(b"", self._heard), b""
        return typed.decode("utf-8", "replace")

    def close(self) -> None:
        """The terminal as it was."""
        if self._thread is not None:  # no screen came
            self.take()
            self._write(_PLAIN)
        with contextlib.suppress(termios.error):  # a terminal that is gone
            termios.tcsetattr(self._fd, termios.TCSANOW, self.mode)

    def _read(self) -> None:
        while self._wake not in (ready := select.select([self._fd, self._wake], [], [])[0]):
            try:
                data = os.read(self._fd, 4096) if ready else b""
            except OSError:
                data = b""
            if not data:  # nobody is there any more
                return
            self._heard += data
            if _LAST.search(self._heard):
                self._answered.set()
            self._draw()

    def _draw(self) -> None:
        text = show_typed(_ANSWERS.sub(b"", self._heard).decode("utf-8", "ignore"))[: self._width - 3]
        shown = text or f"\x1b[2m{PLACEHOLDER[: self._width - 3]}\x1b[22m\x1b[{self._height - 1};2H"
        self._write(f"\x1b[{self._height - 1};2H\x1b[K{shown}")

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError):  # a terminal that is gone; the screen will notice
            os.write(self._out, text.encode(sys.stderr.encoding or "ascii", "replace"))


def show_typed(keys: str) -> str:
    """The letters that keys make, as far as that is simple; what follows Enter or an arrow shows with the screen."""
    shown = ""
    for key in keys:
        if key in "\x7f\b":
            shown = shown[:-1]
        elif not key.isprintable():
            break
        else:
            shown += key
    return shown
