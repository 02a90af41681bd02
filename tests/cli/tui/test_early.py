"""The prompt before there is a screen, on a pseudo terminal."""

from __future__ import annotations

import os
import pty
import termios
import time
from collections.abc import Callable, Iterator

import pytest

from palinurus.cli.tui.early import ALTERNATE, PLACEHOLDER, EarlyPrompt, show_typed

DARK = b"\x1b]11;rgb:1e1e/1e1e/2e2e\x1b\\"
KIND = b"\x1b[?62;22c"


@pytest.fixture
def ends() -> Iterator[tuple[int, int]]:
    person, program = pty.openpty()
    yield person, program
    os.close(person)
    os.close(program)


def read(fd: int, words: bytes) -> bytes:
    seen = b""
    while words not in seen:
        seen += os.read(fd, 65536)
    return seen


def until(true: Callable[[], object]) -> None:
    while not true():
        time.sleep(0.005)


def test_it_stands_takes_letters_and_gives_the_terminal_back(ends: tuple[int, int]) -> None:
    person, program = ends
    before = termios.tcgetattr(program)
    early = EarlyPrompt(colours=False, fd=program, out=program)
    early.open()
    drawn = read(person, PLACEHOLDER.encode())
    assert drawn.startswith(ALTERNATE.encode())
    os.write(person, "h\u00e9".encode())
    read(person, "\x1b[Kh\u00e9".encode())
    os.write(person, b"llo\r\x1b[A")
    read(person, "\x1b[Kh\u00e9llo".encode())
    assert early.background == ""
    early.close()
    assert b"\x1b[?1049l" in read(person, b"\x1b[?25h")
    assert termios.tcgetattr(program) == before


def test_what_the_terminal_answers_is_not_what_was_typed(ends: tuple[int, int]) -> None:
    person, program = ends
    early = EarlyPrompt(colours=True, fd=program, out=program)
    early.open()
    read(person, b"\x1b[c")  # asked
    os.write(person, b"cat" + DARK + b"s" + KIND + b"!\r")
    until(lambda: early.background)
    assert "1e1e" in early.background
    until(lambda: early._heard.endswith(b"\r"))
    assert early.take() == "cats!\r" and early.take() == ""
    early.close()


def test_letters_that_show() -> None:
    assert show_typed("abc\x7fd") == "abd" and show_typed("\x7f") == ""
    assert show_typed("yes\rno") == "yes" and show_typed("a\x1b[D") == "a"
