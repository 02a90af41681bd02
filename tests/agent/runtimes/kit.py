"""An App whose runs a stand-in for Codex, Claude Code or an ACP agent does."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from palinurus.agent.runtimes.brief import ProgramBrief, TalkKit
from palinurus.app import App
from palinurus.clock import SystemClock
from palinurus.config.load import load_config
from palinurus.config.sections.runtimes import RuntimeProgram
from palinurus.core.types.events import RunEvent
from palinurus.core.types.inbound import Sender
from palinurus.store.port import InboxRow
from palinurus.testing.channel import FakeChannel
from support import inbound

PROGRAMS = Path(__file__).parent / "programs"
OWNER = Sender("human", owner=True)


async def _unknown() -> str:
    return ""


async def _forget(ident: str) -> None:
    pass


KIT = TalkKit(RuntimeProgram(("x",)), {}, ProgramBrief(), _unknown, _forget, "m")


@asynccontextmanager
async def running(
    home: Path, model: str, more: dict[str, Any] | None = None, agents: list[Any] | None = None, **defaults: Any
) -> AsyncIterator[App]:
    """`model` names the program: codex/…, claude-cli/…; any other is left to gemini, which speaks ACP. `more` are other
    sections of the config, `agents` its list of agents."""
    name = {"codex": "codex", "claude-cli": "claude-cli"}.get(model.partition("/")[0], "gemini")
    (home / "fake").mkdir(parents=True, exist_ok=True)
    script = PROGRAMS / f"{name.partition('-')[0]}.py"
    backend = {"protocol": "acp", "command": sys.executable, "args": [str(script), str(home / "fake")]}
    chosen = {"agentRuntime": {"id": "gemini"}} if name == "gemini" else {}
    body = {"model": {"primary": model}, "cliBackends": {name: backend}, **chosen, **defaults}
    (home / "palinurus.json").write_text(
        json.dumps({"agents": {"defaults": body, **({"list": agents} if agents else {})}, **(more or {})})
    )
    channel = FakeChannel()
    app = App(load_config(str(home), {}).settings, {}, SystemClock(), channels={channel.name: channel})
    await app.start()
    try:
        yield app
    finally:
        await app.stop()


def heard(home: Path, method: str = "") -> list[Any]:
    """What the program was sent."""
    log = home / "fake" / "log"
    lines = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    return [line for line in lines if not method or (isinstance(line, dict) and line.get("method") == method)]


async def begun(home: Path, count: int) -> None:
    """Return when the program has been sent so many messages."""
    async with asyncio.timeout(60):
        while len(heard(home)) < count:
            await asyncio.sleep(0.02)


async def ask(app: App, text: str) -> tuple[InboxRow, list[RunEvent]]:
    """The owner's message, settled, with its events."""
    events: list[RunEvent] = []
    accepted = await app.submit(inbound(text, sender=OWNER), events.append)
    async with asyncio.timeout(60):
        return await app.wait(accepted.id), events


async def decide(app: App, decision: str) -> None:
    """Answer the next question."""
    async with asyncio.timeout(60):
        while not (rows := await app.approvals.pending()):
            await asyncio.sleep(0.01)
    await app.approvals.answer(rows[0].id, decision, "owner")


def messages(home: Path) -> list[dict[str, Any]]:
    """The transcript's."""
    (file,) = (home / "agents" / "main" / "sessions").glob("*.jsonl")
    return [line["message"] for line in map(json.loads, file.read_text().splitlines()) if "message" in line]
