"""The pictures of docs/chat.md: `PYTHONPATH=tests python tests/cli/tui/screenshots.py docs/chat`."""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from cli.tui.screen import Seat, seat
from palinurus.cli.tui.panel import TaskPanel
from palinurus.testing.model import ScriptedModel, StreamGate, call_tools, hold_at, say

ANSWER = """The suite is green again. What was wrong:

1. `tick()` was called **twice** when the timer fired late.
2. The second call saw an empty queue.

```python
def tick(queue: list[int]) -> int | None:
    return queue.pop() if queue else None
```

| before | after |
|---|--:|
| 3 failed | 12 passed |
"""
BEFORE = "def tick(queue):\n    now = queue.pop(0)\n    run(now)\n    return now\n"
EDIT = {
    "oldText": "    now = queue.pop(0)\n",
    "newText": "    if not queue:\n        return None\n    now = queue.pop()\n",
}
FREE = {"tools": {"exec": {"security": "full", "ask": "off", "host": "gateway"}}}
THINKER = {
    "models": {
        "providers": {
            "fake": {"baseUrl": "http://127.0.0.1:9/v1", "apiKey": "k", "models": [{"id": "m", "reasoning": True}]}
        }
    }
}


def plan(*states: str) -> Any:
    """A call that sets the plan."""
    steps = zip(("Read the failing test", "Mend tick()", "Run the suite"), states, strict=True)
    return ("update_plan", {"plan": [{"step": step, "status": state} for step, state in steps]})


def keep(here: Seat, folder: Path, name: str) -> None:
    """Write what is on the screen; its fonts would be fetched from elsewhere."""
    drawn = re.sub(r"/tmp/tmp\w{8}/workspace", "/home/ada/projects/harbour", here.chat.export_screenshot(title="pal"))
    (folder / name).write_text(re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL))


async def draw_answer(folder: Path, size: tuple[int, int], name: str, theme: str) -> None:
    """A question, a tool, an answer."""
    tests = call_tools(
        ("exec", {"command": "echo '9 passed'; echo '12 passed in 0.41s'"}), text="I run the tests first."
    )
    model = ScriptedModel([tests, say(ANSWER, thinking="The timer may be late.")])
    with tempfile.TemporaryDirectory() as home:
        config = {**THINKER, "ui": {"terminal": {"theme": theme}}}
        async with seat(Path(home), model, size=size, **config) as here:
            await here.type("fix the flaky test, please")
            await here.until(lambda: len(here.said("words")) == 2 and not here.chat.remote.talk.run)
            await here.pilot.pause(0.5)
            keep(here, folder, name)


async def draw_work(folder: Path, size: tuple[int, int], name: str, panel: str = "") -> None:
    """A change and a plan while it works; then the panel."""
    gate = StreamGate()
    calls = [plan("completed", "in_progress", "pending"), ("edit", {"path": "tick.py", "edits": [EDIT]})]
    background = ("exec", {"command": "while true; do echo watching; sleep 5; done", "background": True})
    model = ScriptedModel([call_tools(*calls), call_tools(background), hold_at(say("Done."), gate, 0)])
    with tempfile.TemporaryDirectory() as home:
        work = Path(home) / "workspace"
        work.mkdir()
        (work / "tick.py").write_text(BEFORE)
        async with seat(Path(home), model, size=size, **FREE) as here:
            await here.type("fix the flaky test, please")
            await gate.wait_reached()
            await here.until(lambda: "1 in the background" in here.status or size[0] < 80)
            await here.pilot.pause(0.5)
            keep(here, folder, name)
            if panel:
                await here.pilot.press("f2")
                await here.until(lambda: isinstance(here.chat.screen, TaskPanel))
                await here.pilot.press("enter")
                await here.pilot.pause(1)
                keep(here, folder, panel)


async def main(folder: Path, more: bool) -> None:
    """Draw those of the docs; with `more` also other sizes and themes, to look at."""
    await draw_answer(folder, (80, 32), "answer.svg", "dark")
    await draw_work(folder, (170, 32), "work.svg")
    if more:
        await draw_answer(folder, (60, 20), "answer-60.svg", "auto")
        await draw_answer(folder, (80, 32), "answer-auto.svg", "auto")
        await draw_answer(folder, (80, 32), "answer-light.svg", "light")
        await draw_work(folder, (80, 24), "work-80.svg", "panel-80.svg")
        await draw_work(folder, (60, 20), "work-60.svg", "panel-60.svg")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), "--more" in sys.argv))
