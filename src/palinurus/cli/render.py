"""Run events as lines for a terminal. Model and tool text is shown as text: no escape sequence of theirs acts."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from typing import TextIO

from palinurus.core.stream.answer import LiveText
from palinurus.core.types.events import (
    AgentEnd,
    AgentStart,
    CompactionStart,
    MessageStart,
    MessageUpdate,
    RunEvent,
    ToolEnd,
    ToolStart,
    ToolUpdate,
)

_DROPPED = {
    **dict.fromkeys(c for c in (*range(0x20), *range(0x7F, 0xA0)) if c not in (0x09, 0x0A)),
    **dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F)),
}
_STYLES = {"dim": "2", "bold": "1", "red": "31", "green": "32", "cyan": "36"}


def strip_controls(text: str) -> str:
    """`text` without control characters (tab and newline stay) and without direction overrides."""
    return text.translate(_DROPPED)


class TerminalView:
    """Writes events to `out` as they come."""

    def __init__(self, out: TextIO, environ: Mapping[str, str], *, tools: bool = True) -> None:
        self._out = out
        tty = out.isatty()
        self.color = tty and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
        self._tools = tools
        unicode = (getattr(out, "encoding", "") or "").lower().replace("-", "") == "utf8"
        self._gear, self._dots = ("⚙", "…") if unicode else ("*", "...")
        self.prompt = "› " if unicode else "> "
        self._width = max(40, min(shutil.get_terminal_size().columns, 200)) if tty else 120
        self._line = ""  # the tool whose line is open
        self._started: dict[str, str] = {}
        self._column = 0  # 0: at the start of a line
        self.said = ""
        self._live = LiveText()
        self._thinking = False

    def style(self, text: str, name: str) -> str:
        """`text` in a style, where colors are wanted."""
        return f"\x1b[{_STYLES[name]}m{text}\x1b[0m" if self.color else text

    def begin(self) -> None:
        """A new turn."""
        self._started.clear()
        self._line = self.said = ""
        self._live = LiveText()
        self._thinking = False

    def show(self, event: RunEvent) -> None:
        """One event of the run."""
        if isinstance(event, AgentStart):
            self._live = LiveText(event.reasoning)
        for kind, text in self._live.feed(event):
            self._words(kind, text)
        if isinstance(event, MessageStart):
            if event.message is None and self.said:
                self._fresh()
        elif isinstance(event, ToolStart):
            self._start(event)
        elif isinstance(event, ToolUpdate):
            if event.approval:
                self.note(event.partial, "bold")
        elif isinstance(event, ToolEnd):
            self._end(event)
        elif isinstance(event, MessageUpdate) and event.kind == "status":  # a call that is made again, and why
            self.note(event.delta)
        elif isinstance(event, CompactionStart):
            self.note("making room in the conversation")
        elif isinstance(event, AgentEnd):
            for notice in event.notices:
                self.note(notice)

    def _words(self, kind: str, text: str) -> None:
        if kind == "reasoning":
            if not self._thinking:
                self.note("Thinking")
            self._thinking = True
            self._write(self.style(strip_controls(text), "dim"))
            return
        if self._thinking:
            self._thinking = False
            self._fresh()
        if kind == "replace":  # what was shown is not what was meant: say it again on a fresh line
            self._fresh()
            self.said = ""
        self.text(text)

    def text(self, delta: str) -> None:
        """Words of the agent."""
        shown = strip_controls(delta)
        if not shown:
            return
        if self._line:
            self._fresh()
        self.said += shown
        self._write(shown)

    def note(self, text: str, style: str = "dim") -> None:
        """A line of ours."""
        self._fresh()
        self._write(self.style(strip_controls(text), style) + "\n")

    def finish(self) -> None:
        """End the turn at the start of a line."""
        self._fresh()

    def _start(self, event: ToolStart) -> None:
        words = strip_controls(f"{event.name} {event.summary}".strip()).replace("\n", " ")
        room = self._width - 24
        words = words if len(words) <= room else words[: room - 1] + self._dots
        self._started[event.id] = words
        if not self._tools:
            return
        self._fresh()
        self._write(self.style(f"{self._gear} {words} {self._dots}", "dim"))
        self._line = event.id

    def _end(self, event: ToolEnd) -> None:
        words = self._started.pop(event.id, strip_controls(event.name))
        if not self._tools:
            return
        state = self.style(*tell_tool_state(event.is_error, event.result.exit_code))
        if self._line == event.id:
            self._write(f" {state} {self.style(format_milliseconds(event.took_ms), 'dim')}\n")
            self._line = ""
        else:
            self._fresh()
            line = self.style(f"{self._gear} {words} {self._dots}", "dim")
            self._write(f"{line} {state} {self.style(format_milliseconds(event.took_ms), 'dim')}\n")

    def _fresh(self) -> None:
        self._line = ""
        if self._column:
            self._write("\n")

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()
        self._column = 0 if text.endswith("\n") else 1


def tell_tool_state(failed: bool, code: int) -> tuple[str, str]:
    """How a tool's call went, and its colour. A command that says it failed has failed, though the tool has not."""
    return (f"exit {code}", "red") if code else ("failed", "red") if failed else ("ok", "green")


def format_milliseconds(ms: int) -> str:
    """A duration for people."""
    return f"{ms} ms" if ms < 1000 else f"{ms / 1000:.1f} s"
