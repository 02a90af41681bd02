"""`pal chat` with a pipe and at a real terminal (a pty)."""

from __future__ import annotations

import base64
import codecs
import fcntl
import io
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.place import SRC
from nursery import Program
from palinurus.cli.chat import run_chat


def piped(monkeypatch: pytest.MonkeyPatch, text: str, *args: str) -> int:
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    return run_chat(["--local", *args])


def test_a_pipe_each_line_a_message(
    demo: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "write note.txt with hello\n\nread note.txt\n/exit\nlist files\n"
    assert piped(monkeypatch, text) == 0
    out = capsys.readouterr().out
    assert "⚙ write note.txt … ok" in out and "⚙ read note.txt … ok" in out
    assert "\x1b" not in out and "AGENTS.md" not in out
    assert not (demo / "history").exists()


def test_a_pipe_with_a_failure_is_1(
    demo: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert piped(monkeypatch, "hi\n", "--model", "nobody/nothing") == 1
    assert "no answer" in capsys.readouterr().out


class Terminal:
    """A person at a keyboard."""

    def __init__(self) -> None:
        self.fd, slave = pty.openpty()
        self.process: subprocess.Popen[Any] = Program(
            *("chat", "--local", "--plain"),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            cwd="/",  # in a repository it would ask whether to work there
            env={**os.environ, "TERM": "xterm", "NO_COLOR": "1"},
        )
        os.close(slave)
        self.seen = ""
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode

    def until(self, text: str) -> None:
        """Read until `text` has been shown."""
        end = time.monotonic() + 90
        while text not in self.seen:
            ready = select.select([self.fd], [], [], 20)[0]
            assert ready and time.monotonic() < end, f"waited for {text!r}, saw {self.seen[-3000:]!r}"
            self.seen += self._decode(os.read(self.fd, 65536))
        self.seen = self.seen.split(text, 1)[1]

    def type(self, text: str) -> None:
        os.write(self.fd, text.encode())

    def interrupt(self) -> None:
        time.sleep(0.3)  # readline hears signals once it waits for a key, a moment after the prompt is shown
        self.process.send_signal(2)


@pytest.fixture
def terminal(demo: Path) -> Iterator[Terminal]:
    screen = Terminal()
    yield screen
    if screen.process.poll() is None:
        screen.process.kill()
    screen.process.wait()
    os.close(screen.fd)


def test_at_a_terminal_ctrl_c_stops_the_turn_and_not_the_program(terminal: Terminal, demo: Path) -> None:
    terminal.until("› ")
    terminal.type("list files\n")
    terminal.until("AGENTS.md")
    terminal.until("› ")
    terminal.type("run sleep 60\n")
    terminal.until("⚙ exec")
    terminal.interrupt()
    terminal.until("stopped")
    terminal.until("› ")
    terminal.type("/help\n")
    terminal.until("Ctrl-C")
    terminal.until("› ")
    terminal.type("\x04")
    assert terminal.process.wait(20) == 0
    history = demo / "history"
    assert "list files" in history.read_text() and history.stat().st_mode & 0o777 == 0o600


def test_pasted_lines_are_one_message_and_ctrl_c_twice_at_the_prompt_leaves(terminal: Terminal) -> None:
    terminal.until("› ")
    terminal.type("write a.txt with one\ntwo\n")
    terminal.until("⚙ write a.txt")
    terminal.until("› ")
    assert "did not understand" not in terminal.seen
    terminal.interrupt()
    terminal.until("again leaves")
    terminal.until("› ")
    terminal.interrupt()
    assert terminal.process.wait(20) == 0


class Glass(Terminal):
    """A person at a full screen."""

    def __init__(
        self, home: Path, path: str = "", term: str = "xterm-256color", command: tuple[str, ...] = ("chat",)
    ) -> None:
        """`path`: where a new interpreter finds its modules; otherwise it has the program loaded already."""
        self.fd, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        # in a repository it would ask whether to work there
        options: dict[str, Any] = {"start_new_session": True, "cwd": home.parent, "env": {**os.environ, "TERM": term}}
        options |= {"stdin": slave, "stdout": slave, "stderr": slave}
        if path:
            options["env"]["PYTHONPATH"] = path
            self.process = subprocess.Popen([sys.executable, "-m", "palinurus", *command], **options)
        else:
            self.process = Program(*command, **options)
        os.close(slave)
        self.seen = ""
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode


def left(glass: Glass) -> int:
    try:
        return glass.process.wait(20)
    finally:
        glass.process.kill()
        os.close(glass.fd)


def test_a_terminal_that_can_gets_the_full_screen(demo: Path) -> None:
    glass = Glass(demo)
    glass.until("\x1b[?1049h")
    glass.until("builtin/demo")
    glass.type("list files\r")
    glass.until("AGENTS.md")
    glass.process.terminate()  # the terminal is put back as it was
    glass.until("\x1b[?1049l")
    assert left(glass) == 0


def test_what_is_typed_before_there_is_a_screen_is_shown_kept_and_sent(demo: Path) -> None:
    glass = Glass(demo, SRC)
    glass.until("Say something")  # drawn by hand: Textual is not loaded yet
    assert not termios.tcgetattr(glass.fd)[3] & termios.ECHO
    glass.type("list f\x7ffiles")
    glass.until("\x1b[Klist files")
    glass.type("\r")
    glass.until("AGENTS.md")
    glass.type("\x04")
    glass.until("\x1b[?1049l")
    glass.until("To go on")
    assert left(glass) == 0


def test_kitty_hands_over_the_picture_of_its_clipboard(demo: Path) -> None:
    glass = Glass(demo, term="xterm-kitty")
    glass.until("builtin/demo")
    glass.type("\x16")
    glass.until("\x1b]5522;type=read;aW1hZ2UvcG5n\x1b\\")
    picture = base64.b64encode(b"\x89PNG and more").decode()
    for told in ("OK", f"DATA:mime=aW1hZ2UvcG5n;{picture}", "DONE"):
        glass.type(f"\x1b]5522;type=read:status={told}\x1b\\")
    glass.until("clipboard.png")
    glass.process.terminate()
    assert left(glass) == 0


@pytest.mark.parametrize("shown", ["Say something", "builtin/demo"])  # before the screen, and by it
def test_ctrl_c_while_it_loads_gives_the_terminal_back(demo: Path, shown: str) -> None:
    glass = Glass(demo, SRC)
    glass.until(shown)
    glass.process.send_signal(signal.SIGINT)
    glass.until("\x1b[?1049l")
    assert glass.process.wait(20) == 130
    assert termios.tcgetattr(glass.fd)[3] & termios.ECHO
    os.close(glass.fd)


def test_ctrl_c_in_an_editor_is_the_editors(demo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = (
        "import time; print('in the editor', flush=True); time.sleep(99)"  # dash may miss one before its first child
    )
    monkeypatch.setenv("VISUAL", f'{sys.executable} -c "{words}"')
    glass = Glass(demo, SRC)
    glass.until("builtin/demo")
    glass.type("keep\x07")  # Ctrl-G
    glass.until("in the editor")
    os.killpg(glass.process.pid, signal.SIGINT)  # as a terminal does
    glass.until("nothing was changed")
    glass.process.terminate()
    assert left(glass) == 0


def test_a_terminal_that_goes_away_leaves_nobody_behind(demo: Path) -> None:
    glass = Glass(demo)
    glass.until("builtin/demo")
    os.close(glass.fd)
    assert glass.process.wait(20) in (0, 129)


def test_a_dumb_terminal_gets_lines(demo: Path) -> None:
    glass = Glass(demo, term="dumb")
    glass.until("› ")
    glass.type("\x04")
    assert left(glass) == 0


def test_ctrl_z_where_no_shell_could_bring_it_back_stops_nothing(demo: Path) -> None:
    glass = Glass(demo)
    glass.until("builtin/demo")
    glass.type("\x1a")
    glass.until("there is no shell to go to")
    glass.type("\x04")
    assert left(glass) == 0


@pytest.mark.parametrize("gone", ["a part", "all"])
def test_without_the_extra_it_is_lines_too(demo: Path, tmp_path: Path, gone: str) -> None:
    (tmp_path / "textual").mkdir()
    (tmp_path / "textual" / "__init__.py").write_text("raise ModuleNotFoundError('gone', name='textual')")
    if gone == "all":
        (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['textual'] = None")
    glass = Glass(demo, f"{tmp_path}:{SRC}")
    if gone == "all":
        glass.until("pal extras add tui")
    glass.until("› ")
    glass.type("\x04")
    assert left(glass) == 0


def test_one_message_at_a_terminal_asks_right_there(demo: Path) -> None:
    glass = Glass(demo, command=("agent", "--local", "-m", "run echo sail >> MEMORY.md"))
    glass.until("once / no? ")
    glass.type("\n")  # Enter is no answer
    glass.until("once / no? ")
    glass.type("once\n")
    assert left(glass) == 0
    assert (demo / "workspace" / "MEMORY.md").read_text() == "sail\n"


def test_ctrl_c_at_the_question_is_told_in_words(demo: Path) -> None:
    glass = Glass(demo, command=("agent", "--local", "-m", "run echo sail >> MEMORY.md"))
    glass.until("once / no? ")
    glass.process.send_signal(signal.SIGINT)
    glass.until("pal: stopped: Ctrl-C")
    assert left(glass) == 130
    assert not (demo / "workspace" / "MEMORY.md").exists()
