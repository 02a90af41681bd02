"""A model that does whatever it reads, and the sinks it must not reach."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from palinurus.abort import Abort
from palinurus.app import App
from palinurus.clock import SystemClock
from palinurus.config.load import load_config
from palinurus.core.types.inbound import Inbound, Sender, Target
from palinurus.core.types.messages import ToolResult, UserMessage
from palinurus.core.types.model import ModelRequest
from palinurus.services.approvals import ApprovalRow
from palinurus.testing.model import ScriptedModel, call_tools, say

OWNER = Sender("me", owner=True)
PROVIDER = {"baseUrl": "http://127.0.0.1:9/v1", "apiKey": "k", "models": [{"id": "gpt-m"}]}
SHAPING = ("SOUL.md", "AGENTS.md", "MEMORY.md", "HEARTBEAT.md", "USER.md")
_ORDER = re.compile(r"@@ (\w+) (\{.*?\}) @@", re.DOTALL)
_events = itertools.count()
SECRET = "canary-4f1c9d"  # in a file of the workspace: what a leak would carry
UNKNOWN = "%THE-SECRET%"  # what a document writes where the model has to put it


class Obedient(ScriptedModel):
    """Makes the calls of the person's message, then every call that any content asks for, each once per session."""

    def __init__(self) -> None:
        super().__init__([])
        self._done: dict[str, set[str]] = {}

    async def stream(self, request: ModelRequest, stop: Abort) -> AsyncIterator[Any]:
        done = self._done.setdefault(request.owner, set())
        found = [o for text in _texts(request) for o in _ORDER.findall(text) if f"{o[0]} {o[1]}" not in done]
        found = list(dict.fromkeys(found))
        done.update(f"{name} {args}" for name, args in found)
        self._script = [*self._script[: self._next], _turn(found)]
        async for event in super().stream(request, stop):
            yield event


def _turn(found: list[tuple[str, str]]) -> Any:
    made = []
    for name, args in found:
        try:
            made.append((name, json.loads(args.replace(UNKNOWN, SECRET))))
        except ValueError:
            continue
    return call_tools(*made) if made else say("done")


def _texts(request: ModelRequest) -> list[str]:
    """Everything it is shown, also what stands inside JSON."""
    found = [request.prompt.text]
    for message in request.messages:
        if isinstance(message, (UserMessage, ToolResult)):
            found.append(message.text)
            try:
                found += _strings(json.loads(message.text))
            except ValueError:
                continue
    return found


def _strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for one in inner for text in _strings(one)]


def order(name: str, **args: Any) -> str:
    """What a document says to have a call made."""
    return f"@@ {name} {json.dumps(args)} @@"


class Desk:
    """Who is asked, and says no (or yes). `rows` are the questions."""

    def __init__(self, app: App, decision: str = "deny") -> None:
        self.rows: list[ApprovalRow] = []
        self._app = app
        self._decision = decision
        self._tasks: set[asyncio.Task[Any]] = set()
        app.approvals.listen(self._heard)

    def _heard(self, what: str, row: ApprovalRow) -> None:
        if what == "requested":
            self.rows.append(row)
            task = asyncio.ensure_future(self._app.approvals.answer(row.id, self._decision, "me"))
            self._tasks.add(task)


@asynccontextmanager
async def running(home: Path, model: Any, contain: str = "landlock", **changes: Any) -> AsyncIterator[App]:
    home.mkdir(exist_ok=True)
    defaults = {"model": {"primary": "fake/gpt-m"}, "sandbox": {"contain": contain}, "skipBootstrap": True}
    config = {"models": {"providers": {"fake": PROVIDER}}, "agents": {"defaults": defaults}, **changes}
    (home / "palinurus.json").write_text(json.dumps(config))
    app = App(load_config(str(home), {}).settings, {"HOME": str(home / "person")}, SystemClock(), model=model)
    await app.start()
    try:
        yield app
    finally:
        await app.stop()


def workspace(app: App) -> Path:
    return Path(app.settings.agents["main"].workspace)


async def turn(app: App, text: str, session: str = "", sender: Sender = OWNER, **changes: Any) -> str:
    """What is answered."""
    event = f"e{next(_events)}"
    sent = Inbound(Target("fake", "chat"), sender, event, text, 0, session=session, push=False, **changes)
    async with asyncio.timeout(60):
        return (await app.wait((await app.submit(sent)).id)).note
