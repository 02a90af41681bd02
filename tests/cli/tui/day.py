"""docs/day.md: a day's work, typed into the real `pal` in a real terminal (tmux), with a scripted model behind it.

`PYTHONPATH=tests python tests/cli/tui/day.py docs/day.md` writes it anew, without times and places of this machine.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from palinurus.testing.model import ScriptedTurn, call_tools, say
from palinurus.testing.server import ModelServer

WIDTH, HEIGHT = 88, 30
PATIENCE = 60.0  # seconds for something to appear
TIDE = '''def next_high(hours: list[float], now: float) -> float:
    """The first high water after `now`, hours after midnight."""
    for hour in sorted(hours):
        if hour > now:
            return hour
    return hours[0]
'''
TEST = """import unittest
from tide import next_high

class TideTest(unittest.TestCase):
    def test_tomorrow(self):
        self.assertEqual(next_high([16.5, 4.0], 20.0), 28.0)

unittest.main()
"""
EDIT = {"oldText": "    return hours[0]\n", "newText": "    return min(hours) + 24\n"}
# What differs from one making to the next -> what stands there instead.
_CHANGING = (
    (r" \d+(\.\d+)? (ms|s)\b", ""),
    (r" in \d+(\.\d+)?s\b", ""),
    (r"(?m) +[\u2581-\u2587]$", ""),  # the scroll bar's end
    (r"\b[0-9a-f]{7} (?=Tides|Begin)", "4a5e1b0 "),
    (r"harbour-[0-9a-f]{8}", "harbour-4a5e1b0c"),
    (r"\b01[0-9a-z]{24}\b", "01kbc4a5e1b0c2d3e4f5g6h7j8"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?", "today 18:00"),
)
HEAD = """# A day with it

What a day's work looks like in the terminal. The screens are those of the real `pal` ({width}x{height}, in tmux), and
so are the tools, the diff and the tests; only the model is scripted, so that the page can be made again: `make
screenshots` does, and nothing here is typed by hand. Times are taken out.
"""


def plan(*states: str) -> Any:
    """A call that sets the plan."""
    steps = zip(("Read the test", "Mend next_high", "Run the test"), states, strict=True)
    return ("update_plan", {"plan": [{"step": step, "status": state} for step, state in steps]})


def write_script() -> list[ScriptedTurn]:
    """What the model says, in this order."""
    run = ("exec", {"command": "python3 test_tide.py"})
    return [
        call_tools(run, text="I run the test first."),
        say(
            "After the last high water of the day, `next_high` gives **today's** first one again (4.0); "
            "it should be tomorrow's, 28.0."
        ),
        call_tools(plan("completed", "in_progress", "pending"), ("edit", {"path": "tide.py", "edits": [EDIT]})),
        call_tools(run),
        call_tools(plan("completed", "completed", "completed")),
        say("Done: after the last one, the earliest of tomorrow is given. The test passes."),
        call_tools(("exec", {"command": "git commit -qam 'Tides after midnight' && git log --oneline"})),
        say("Committed."),
        say("The file holds one function, next_high; nothing else calls it."),
    ]


class Terminal:
    """A tmux of our own."""

    def __init__(self, home: str, env: dict[str, str]) -> None:
        self._home, self._socket = home, os.path.join(home, "tmux")
        line = ["new-session", "-d", "-x", str(WIDTH), "-y", str(HEIGHT), "env", "-i"]
        self._tmux(*line, *(f"{name}={value}" for name, value in env.items()), "bash", "--norc", "-i")
        self.type("PS1='$ '; cd ~/harbour; clear")

    def _tmux(self, *args: str) -> str:
        line = ["tmux", "-S", self._socket, "-f", "/dev/null", *args]
        return subprocess.run(line, check=True, capture_output=True, text=True).stdout

    def press(self, *keys: str) -> None:
        """As tmux calls them."""
        self._tmux("send-keys", *keys)

    def type(self, text: str) -> None:
        """A line and Enter."""
        self._tmux("send-keys", "-l", text)
        self.press("Enter")

    def read(self) -> str:
        """What is on the screen, without what changes from day to day."""
        shown = self._tmux("capture-pane", "-p").rstrip()
        shown = shown.replace(self._home, "/home/ada")
        for pattern, told in _CHANGING:
            shown = re.sub(pattern, told, shown)
        return "\n".join(line.rstrip() for line in shown.split("\n"))

    async def until(self, *words: str, gone: str = "") -> str:
        """The screen once all of `words` stand there."""
        async with asyncio.timeout(PATIENCE):
            while True:
                shown = self.read()
                if all(word in shown for word in words) and not (gone and gone in shown):
                    await asyncio.sleep(0.6)  # what is being drawn is drawn
                    return self.read()
                await asyncio.sleep(0.2)

    def close(self) -> None:
        """End it."""
        self._tmux("kill-server")


class Page:
    """What is written."""

    def __init__(self) -> None:
        self.text = HEAD.format(width=WIDTH, height=HEIGHT)

    def add(self, title: str, words: str, screen: str) -> None:
        """A step: what is done, and what is seen then; empty rows at the top are left out."""
        rows = screen.split("\n")
        while rows and not rows[0].strip():
            rows.pop(0)
        shown = "\n".join(rows)
        self.text += f"\n## {title}\n\n{words}\n\n```text\n{shown}\n```\n"


async def spend_day(terminal: Terminal, page: Page) -> None:
    """From the first question to the last."""
    terminal.type("pal")
    await terminal.until("Work in")
    terminal.type("y")
    await terminal.until("F1 tells the keys", "server/scripted")
    terminal.type("why does the test fail?")
    page.add(
        "Morning: a question",
        "`pal`, started in a git repository, asks once whether it may work there. The test runs in the sandbox; a "
        "command that fails says so.",
        await terminal.until("28.0", "server/scripted", gone="Esc stops"),
    )
    terminal.type("mend it, please")
    page.add(
        "A change",
        "The plan stands above the line while it is worked on; edits are shown as diffs.",
        await terminal.until("The test passes.", gone="Esc stops"),
    )
    terminal.type("!git diff --stat")
    await terminal.until("outside any sandbox?")
    terminal.type("yes")
    page.add(
        "Looking for yourself",
        "`!` is your own shell, outside the sandbox, after asking once; the agent sees none of it.",
        await terminal.until("1 file changed"),
    )
    terminal.type("commit it")
    await terminal.until("Committed.", gone="Esc stops")
    terminal.type("#tides are given in hours after midnight")
    page.add(
        "A note, and the commit",
        "`git commit` has your name in the sandbox too. What follows `#` is written into the agent's memory.",
        await terminal.until("tides are given in hours", gone="#tides"),
    )
    terminal.press("Escape")
    await asyncio.sleep(0.2)
    terminal.press("Escape")
    page.add(
        "Going back",
        "Esc twice: back to before any of these messages, with the files as they were then if you like.",
        await terminal.until("mend it, please", "why does the test fail?", "type to filter"),
    )
    terminal.press("Escape")
    await asyncio.sleep(1)
    terminal.press("C-d")
    page.add("Lunch", "Leaving says how to come back.", await terminal.until("To go on with this conversation"))
    terminal.type("clear; pal -p 'what is in tide.py?'; pal changes")
    page.add(
        "Evening: from the command line",
        "One question for a script, and what the agent changed here; `pal undo` would put it back.",
        await terminal.until("nothing else calls it", "min(hours)"),
    )


def prepare(home: Path, url: str) -> dict[str, str]:
    """A home with a repository in it, and what the shell gets of this machine."""
    repository = home / "harbour"
    repository.mkdir()
    (repository / "tide.py").write_text(TIDE)
    (repository / "test_tide.py").write_text(TEST)
    (home / ".gitconfig").write_text("[user]\nname = Ada\nemail = ada@example.org\n[init]\ndefaultBranch = main\n")
    model = {"id": "scripted", "contextWindow": 32000}
    config = {
        "models": {"providers": {"server": {"baseUrl": url, "apiKey": "k", "models": [model]}}},
        "agents": {"defaults": {"model": {"primary": "server/scripted"}}},
        "ui": {"terminal": {"status": ["state", "mode", "folder", "branch", "model"]}},
    }
    (home / ".palinurus").mkdir(mode=0o700)
    (home / ".palinurus" / "palinurus.json").write_text(json.dumps(config))
    env = {
        "HOME": str(home),
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "TERM": "screen-256color",
        "LANG": "C.UTF-8",
        "COLORFGBG": "15;0",
    }
    for line in (["init", "-q"], ["add", "."], ["commit", "-qm", "Begin"]):
        subprocess.run(["git", "-C", str(repository), *line], env=env, check=True)
    return env


async def main(file: Path) -> None:
    """Make the page."""
    home = Path(tempfile.mkdtemp(prefix="day-"))
    page = Page()
    async with ModelServer(write_script(), default=say("That was all.")) as server:
        terminal = Terminal(str(home), prepare(home, server.url))
        try:
            await spend_day(terminal, page)
        except TimeoutError:
            sys.exit(f"it never came; the screen says:\n{terminal.read()}")
        finally:
            terminal.close()
            shutil.rmtree(home, ignore_errors=True)
    file.write_text(page.text)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
