"""docs/tools.md, typed into a real `pal chat`: a patch, a background test run, a terminal program, the web."""

from __future__ import annotations

import asyncio
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from flow.test_dialogue import Screen
from palinurus.testing.model import call_tools, say
from palinurus.testing.server import ModelServer
from tools.web.kit import Canary, Site

PAGE = (Path(__file__).parents[2] / "docs" / "tools.md").read_text(encoding="utf-8")
PATCH = "*** Begin Patch\n*** Update File: greet.sh\n@@\n-echo Helo\n+echo Hello\n*** End Patch"
FILES = {
    "greet.sh": "echo Helo\n",
    "check.sh": 'sleep 0.3\n[ "$(sh greet.sh)" = Hello ] && echo 12 passed\n',
    "release.sh": "printf 'Release version 2? [y/N] '\nread answer\n[ \"$answer\" = y ] && echo released\n",
}


def dialogue(opened: int, closed: int) -> list[tuple[str, str]]:
    block = re.search(r"```console\n(.*?)```", PAGE, re.DOTALL)
    assert block is not None
    text = block.group(1).replace(":8123", f":{opened}").replace(":8124", f":{closed}")
    return [("typed", s[2:]) if s[:2] == "› " else ("shown", s) for s in text.splitlines()]


class Reader(Screen):
    """Reads NAME as any word."""

    def until(self, text: str) -> None:
        if "NAME" not in text:
            super().until(text)
            return
        before, after = text.split("NAME")
        super().until(before)
        super().until(after)


class Agent:
    """What the model does, in order; ids of sessions it has read in results."""

    def __init__(self, opened: str, closed: str) -> None:
        self.results: list[str] = []
        self._steps = iter(
            (
                lambda: call_tools(("apply_patch", {"input": PATCH})),
                lambda: call_tools(("exec", {"command": "sh check.sh", "background": True})),
                lambda: call_tools(("process", {"action": "poll", "sessionId": self._session(), "timeout": 20_000})),
                lambda: say(f"Fixed. The tests say: {self._said('12 passed')}."),
                lambda: call_tools(("exec", {"command": "sh release.sh", "pty": True, "background": True})),
                lambda: call_tools(("process", {"action": "poll", "sessionId": self._session(), "timeout": 10_000})),
                lambda: call_tools(("process", {"action": "submit", "sessionId": self._session(), "data": "y"})),
                lambda: call_tools(("process", {"action": "poll", "sessionId": self._session(), "timeout": 10_000})),
                lambda: say(f"It asked whether to release version 2; I said yes. It is {self._said('released')}."),
                lambda: call_tools(("web_fetch", {"url": opened})),
                lambda: say(f"It says: {self._said('All ships are home.')}"),
                lambda: call_tools(("web_fetch", {"url": closed})),
                lambda: say(f"I may not open that one. {self._said('Not fetched')}: nobody has opened it to me."),
            )
        )

    def __call__(self, asked: Any) -> Any:
        self.results = [str(m["content"]) for m in asked.body["messages"] if m["role"] == "tool"]
        return next(self._steps)()

    def _session(self) -> str:
        found = [m for text in self.results for m in re.findall(r"sessionId (\S+)", text)]
        return found[-1]

    def _said(self, words: str) -> str:
        assert words in self.results[-1], self.results[-1]
        return words


@pytest.mark.seed(278, 279)
async def test_the_tools_of_the_docs(tmp_path: Path) -> None:
    site, canary, home = Site(), Canary(), tmp_path / "h"
    await site.start()
    await canary.start()
    site.routes["/news"] = "<title>News</title><main><p>All ships are home.</p></main>"
    (home / "workspace").mkdir(parents=True)
    for name, text in FILES.items():
        (home / "workspace" / name).write_text(text)
    agent = Agent(site.url("/news"), f"http://127.0.0.1:{canary.port}/")
    async with ModelServer([], default=agent) as server:
        provider = {"baseUrl": server.url, "apiKey": "k", "api": "openai-completions", "models": [{"id": "gpt-m"}]}
        config = {
            "models": {"providers": {"mock": provider}},
            "agents": {"defaults": {"model": "mock/gpt-m"}},
            # A poll that half a second of silence ends before the command does would be followed by a turn of its own.
            "tools": {"web": {"fetch": {"allowedHosts": [site.entry]}}, "exec": {"notifyOnExit": False}},
        }
        (home / "palinurus.json").write_text(json.dumps(config))
        screen = Reader(home)
        try:
            assert await asyncio.to_thread(screen.play, dialogue(site.port, canary.port)) == 0
        finally:
            screen.process.kill()
            screen.process.wait()
            os.close(screen.fd)
    assert (home / "workspace" / "greet.sh").read_text() == "echo Hello\n"
    assert canary.hits == 0 and [request.path for request in site.seen] == ["/news"]
    await canary.stop()
    await site.stop()
