"""docs/chat.md, typed into a real `pal chat`."""

from __future__ import annotations

import asyncio
import codecs
import json
import os
import pty
import re
import select
from pathlib import Path
from typing import Any

import pytest

from nursery import Program
from palinurus.testing.model import call_tools, say
from palinurus.testing.server import ModelServer

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "chat.md").read_text(encoding="utf-8")


def dialogue() -> list[tuple[str, str]]:
    """(kind, text): typed at the prompt, typed while a tool runs, shown."""
    block = re.search(r"```console\n(.*?)```", PAGE, re.DOTALL)
    assert block is not None
    kinds = {"› ": "typed", "» ": "aside"}
    return [(kinds[s[:2]], s[2:]) if s[:2] in kinds else ("shown", s) for s in block.group(1).splitlines()]


def model(asked: Any) -> Any:
    """Greets; runs the slow tool when asked for tests; thanks when told to, also in the middle of it."""
    messages = asked.body["messages"]
    said = [m["content"] for m in messages if m["role"] == "user"]
    text = said[-1] if isinstance(said[-1], str) else said[-1][-1]["text"]
    if "thanks" in text:
        return say("The tests passed. Thank you for waiting!")
    if messages[-1]["role"] == "tool":
        return say("The tests passed.")
    if "tests" in text or "again" in text:
        return call_tools(("exec", {"command": "sleep 2; echo 12 passed"}))
    return say("Hello! What shall we do?")


class Screen:
    """A person at a keyboard who reads along."""

    def __init__(self, home: Path) -> None:
        self.fd, slave = pty.openpty()
        environ = {**os.environ, "PALINURUS_HOME": str(home), "TERM": "xterm", "NO_COLOR": "1"}
        self.process = Program(
            *("chat", "--plain"),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            env=environ,
            cwd=home.parent,
        )
        os.close(slave)
        self.seen = ""
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode

    def until(self, text: str) -> None:
        while text not in self.seen:
            ready = select.select([self.fd], [], [], 30)[0]
            assert ready, f"waited for {text!r}, saw {self.seen[-800:]!r}"
            self.seen += self._decode(os.read(self.fd, 65536)).replace("\r\n", "\n")
        self.seen = self.seen.split(text, 1)[1]

    def type(self, text: str) -> None:
        os.write(self.fd, text.encode() + b"\n")

    def play(self, lines: list[tuple[str, str]]) -> int:
        for kind, text in lines:
            if kind == "shown":
                self.until(text)
            else:
                if kind == "typed":
                    self.until("› ")
                self.type(text)
                self.until(text)  # the echo
        self.until("› ")
        os.write(self.fd, b"\x04")
        return self.process.wait(20)


@pytest.mark.seed(50, 62, 64, 65, 69, 377, 378, 380)
async def test_the_dialogue_of_the_docs(tmp_path: Path) -> None:
    async with ModelServer([], default=model) as server:
        thinker = {"id": "thinker", "reasoning": True}
        provider = {"baseUrl": server.url, "apiKey": "k", "api": "openai-completions", "models": [thinker]}
        config = {"models": {"providers": {"mock": provider}}, "agents": {"defaults": {"model": "mock/thinker"}}}
        (tmp_path / "palinurus.json").write_text(json.dumps(config))
        screen = Screen(tmp_path)
        try:
            assert await asyncio.to_thread(screen.play, dialogue()) == 0
        finally:
            screen.process.kill()
            screen.process.wait()
            os.close(screen.fd)
        efforts = [asked.body.get("reasoning_effort") for asked in server.requests]
    # low for the one message that said so, then the session's level again
    assert efforts == ["low", "high", "high", "high"]
    steered = server.requests[2].body["messages"]
    assert [m["role"] for m in steered[-4:]] == ["user", "assistant", "tool", "user"]
