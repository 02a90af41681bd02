"""The real terminal UI, in tmux, with keys typed into it."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import time

from place import Place
from tally import Tally, until

from palinurus.testing.home import TOKEN

WAIT = 60  # seconds until something is seen: the machine may have other things to do


class Screen:
    """A terminal of its own; a tmux server of its own too, so that nobody else's sessions are touched."""

    def __init__(self, place: Place) -> None:
        self._socket = f"compat-{place.port}"
        self._place = place
        environ = place.environ("tui")
        wanted = {name: environ[name] for name in ("HOME", "PATH", "NO_COLOR")}
        command = [*place.program, "tui", "--url", place.url, "--token", TOKEN]
        line = " ".join([*(f"{k}={shlex.quote(v)}" for k, v in wanted.items()), shlex.join(command)])
        self._tmux("new-session", "-d", "-s", "tui", "-x", "150", "-y", "50", f"{line}; sleep 600")

    def _tmux(self, *args: str) -> str:
        done = subprocess.run(["tmux", "-L", self._socket, *args], capture_output=True, text=True)
        return done.stdout

    def see(self) -> str:
        return self._tmux("capture-pane", "-t", "tui", "-p")

    def keys(self, *names: str) -> None:
        self._tmux("send-keys", "-t", "tui", *names)

    def type(self, text: str) -> None:
        """A line, sent when it stands in the prompt and again while it does: a list of completions takes an Enter."""
        for _ in range(3):
            self._tmux("send-keys", "-t", "tui", "-l", text)
            if text in until(self._prompt, re.escape(text), seconds=WAIT / 4):
                break
            self.keys("C-u")  # its first letter went into a list that was just closing
        for _ in range(4):
            if text.startswith("/"):
                self.keys("Escape")
                time.sleep(0.5)  # a terminal waits for what may follow an Escape
            self.keys("Enter")
            if not until(self._prompt, r"^$", seconds=WAIT / 4):
                return

    def _prompt(self) -> str:
        """What stands between the last two lines that go across the screen."""
        parts = re.split(r"(?m)^─{20,}$", self.see())
        return parts[-2].strip() if len(parts) > 2 else ""

    def leave(self) -> None:
        """Close a list: then the prompt is there again."""
        self.keys("Escape")
        time.sleep(0.5)  # as in `type`
        until(lambda: str(len(re.findall(r"(?m)^─{20,}$", self.see()))), r"[2-9]", seconds=WAIT)

    def keep(self, name: str) -> None:
        """The screen as text, to be looked at."""
        with open(os.path.join(self._place.shots, f"tui-{name}.txt"), "w", encoding="utf-8") as handle:
            handle.write(self.see())

    def close(self) -> None:
        self._tmux("kill-server")


def drive(place: Place, tally: Tally) -> None:
    """Chat, tool card, abort, levels, models, sessions."""
    screen = Screen(place)
    try:
        tally.has("tui: connects", until(screen.see, r"connected \| idle", seconds=180), r"connected", r"(?i)\bmodel\b")
        _talk(screen, tally)
        _levels(screen, tally)
        _places(screen, tally)
    finally:
        screen.close()


def _step(screen: Screen, tally: Tally, name: str, typed: str, *wanted: str, seconds: float = WAIT) -> None:
    screen.type(typed)
    shown = until(screen.see, *wanted, seconds=seconds)
    screen.keep(name.replace(" ", "-"))
    tally.has(f"tui: {name}", shown, *wanted)


def _talk(screen: Screen, tally: Tally) -> None:
    _step(screen, tally, "chat", "SAY hello sailor", r"(?m)^ *hello sailor", r"\| idle")
    _step(screen, tally, "verbose", "/verbose full", r"verbose full")
    _step(screen, tally, "tool card", 'TOOL read {"path": "notes.txt"}', r"remember the milk", r"Read", r"\| idle")
    _abort(screen, tally)


def _abort(screen: Screen, tally: Tally) -> None:
    until(screen.see, r"\| idle", seconds=WAIT)
    screen.type("STALL 400")  # the model says nothing more, so the run lasts until it is ended
    until(screen.see, r"(?m)^ *echo: ST", seconds=WAIT)
    screen.keys("Escape")
    shown = until(screen.see, r"aborted", seconds=WAIT)
    screen.keep("abort")
    tally.has("tui: abort", shown, r"aborted")
    until(screen.see, r"connected \| (idle|aborted)", seconds=WAIT)


def _levels(screen: Screen, tally: Tally) -> None:
    _step(screen, tally, "think", "/think high", r"thinking set to high", r"\| (think|\S+) high")
    _step(
        screen, tally, "think wrong", "/think sideways", r"(?i)(invalid|unrecognized|unknown|usage|use)[^\n]*(off|low)"
    )
    _step(screen, tally, "model", "/model fake/second", r"model set to fake/second", r"\| (fake/)?second")
    _step(screen, tally, "fast", "/fast on", r"(?i)fast mode (enabled|on|set)|fast set to on")
    _step(screen, tally, "reasoning", "/reasoning on", r"(?i)reasoning[^\n]*on")
    _step(screen, tally, "usage", "/usage full", r"(?i)usage[^\n]*full")
    _step(screen, tally, "status", "/gateway-status", r"(?i)gateway")


def _places(screen: Screen, tally: Tally) -> None:
    _step(screen, tally, "sessions", "/sessions", r"(?i)\bsearch\b|filter|↑")
    screen.leave()
    _step(screen, tally, "models", "/models", r"second")
    screen.leave()
    _step(screen, tally, "new", "/new", r"session tui-|new session")
    _step(screen, tally, "chat in the new session", "SAY fresh start", r"(?m)^ *fresh start", r"\| idle")
    _step(screen, tally, "reset", "/reset", r"(?i)reset")
