"""Questions and answers through the whole program: in the chat, by stop and restart, by level and by person."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from palinurus.app import App
from palinurus.clock import SystemClock
from palinurus.config.load import load_config
from palinurus.core.types.events import RunEvent, ToolUpdate
from palinurus.core.types.inbound import Inbound, Sender, Target
from palinurus.core.types.messages import ToolResult
from palinurus.services.approvals import ApprovalBoard, ApprovalRow
from palinurus.store.factory import open_store
from palinurus.testing.channel import FakeChannel
from palinurus.testing.model import ScriptedModel, call_tools, say

OWNER = Sender("me", owner=True)
MEMBER = Sender("you", allowed=True)
COMMAND = "touch X"
PROVIDER = {"baseUrl": "http://127.0.0.1:9/v1", "apiKey": "k", "models": [{"id": "m"}]}
CONFIG = {
    "models": {"providers": {"fake": PROVIDER}},
    "agents": {"defaults": {"model": {"primary": "fake/m"}}},
}
_events = itertools.count()


@asynccontextmanager
async def running(home: Path, model: Any, channel: FakeChannel | None = None, **changes: Any) -> AsyncIterator[App]:
    home.mkdir(exist_ok=True)
    (home / "palinurus.json").write_text(json.dumps({**CONFIG, **changes}))
    channels = {channel.name: channel} if channel else {}
    app = App(load_config(str(home), {}).settings, {"HOME": str(home)}, SystemClock(), model=model, channels=channels)
    await app.start()
    try:
        yield app
    finally:
        await app.stop()


def typed(text: str, sender: Sender = OWNER, **changes: Any) -> Inbound:
    return Inbound(
        **{
            "target": Target("fake", "chat"),
            "sender": sender,
            "event": f"e{next(_events)}",
            "text": text,
            "at": 0,
            **changes,
        }
    )


async def told(app: App, text: str, sender: Sender = OWNER) -> str:
    """What a command answers."""
    return (await app.wait((await app.submit(typed(text, sender))).id)).note


async def question(app: App, count: int = 1) -> ApprovalRow:
    """The one that waits."""
    async with asyncio.timeout(60):
        while len(rows := await app.approvals.pending()) < count:
            await asyncio.sleep(0.005)
    return rows[-1]


def workspace(app: App) -> Path:
    return Path(app.settings.agents["main"].workspace)


def elevated(command: str = COMMAND) -> Any:
    return call_tools(("exec", {"command": command, "elevated": True}))


def result(model: ScriptedModel) -> ToolResult:
    """The last tool result the model was given."""
    return next(m for m in reversed(model.requests[-1].messages) if isinstance(m, ToolResult))


async def test_the_card_comes_to_the_chat_and_approve_works_while_the_run_waits(tmp_path: Path) -> None:
    model, channel = ScriptedModel([elevated(), say("done")]), FakeChannel()
    async with running(tmp_path / "h", model, channel) as app:
        sent = await app.submit(typed("make X"))
        row = await question(app)
        async with asyncio.timeout(60):
            while not channel.texts:
                await asyncio.sleep(0.005)
        card = channel.texts[0]
        assert COMMAND in card and "outside the sandbox" in card
        ident = re.search(r"/approve (\w+) allow-once\|deny", card)  # it writes in the workspace: no rule
        assert ident is not None and row.id.startswith(ident[1])
        assert not (workspace(app) / "X").exists()
        assert COMMAND in await told(app, "/approve")
        assert (await told(app, f"/approve {ident[1]} allow-once")).startswith("Allowed once")
        assert (await app.wait(sent.id)).note == "done"
        assert (workspace(app) / "X").exists() and not result(model).isError
        assert await told(app, "/approve") == "Nothing waits for an approval."
        assert "already answered" in await told(app, f"/approve {ident[1]} deny")


async def test_denied_is_told_to_the_model_in_words(tmp_path: Path) -> None:
    model = ScriptedModel([elevated(), say("ok, not")])
    async with running(tmp_path / "h", model) as app:
        sent = await app.submit(typed("make X"))
        row = await question(app)
        assert (await told(app, f"/approve {row.id[:6]} deny")).startswith("Denied")
        assert (await app.wait(sent.id)).outcome == "answered"
        assert result(model).isError and "denied by me (fake)" in result(model).text
        assert not (workspace(app) / "X").exists()


async def test_only_the_owner_answers(tmp_path: Path) -> None:
    model = ScriptedModel([elevated(), say("done")])
    async with running(tmp_path / "h", model) as app:
        sent = await app.submit(typed("make X"))
        row = await question(app)
        assert await told(app, f"/approve {row.id} allow-once", MEMBER) == "Approvals are given by the owner only."
        assert await told(app, "/approve", MEMBER) == "Approvals are given by the owner only."
        assert [r.id for r in await app.approvals.pending()] == [row.id]
        helper = Sender("phone", allowed=True, scopes=("operator.approvals",))
        assert (await told(app, f"/approve {row.id} deny", helper)).startswith("Denied")
        await app.wait(sent.id)


async def test_allow_always_is_asked_once_and_covers_nothing_else(tmp_path: Path) -> None:
    script = [elevated("ls -la"), elevated("ls -la"), elevated("ls -l /"), say("done")]
    model = ScriptedModel(script)
    async with running(tmp_path / "h", model) as app:
        sent = await app.submit(typed("look"))
        first = await question(app)
        assert (await told(app, f"/approve {first.id} allow-always")).startswith("Allowed, now and always")
        second = await question(app)
        assert second.ask.command == "ls -l /" and second.id != first.id
        await told(app, f"/approve {second.id} deny")
        await app.wait(sent.id)
        results = [m for m in model.requests[-1].messages if isinstance(m, ToolResult)]
        assert [r.isError for r in results] == [False, False, True]
    stored = json.loads((tmp_path / "h" / "exec-approvals.json").read_text())
    (entry,) = stored["agents"]["main"]["allowlist"]
    assert entry["argv"] == ["-la"] and entry["pattern"].endswith("/ls") and entry["source"] == "allow-always"


async def test_stop_closes_the_question(tmp_path: Path) -> None:
    model = ScriptedModel([elevated(), say("never")])
    async with running(tmp_path / "h", model) as app:
        sent = await app.submit(typed("make X"))
        row = await question(app)
        await told(app, "/stop")
        assert (await app.wait(sent.id)).outcome == "aborted"
        async with asyncio.timeout(60):
            while await app.approvals.pending():
                await asyncio.sleep(0.005)
        assert "no longer open" in await told(app, f"/approve {row.id} allow-once")
        assert not (workspace(app) / "X").exists()


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_restart_keeps_the_question_and_an_answer_counts_once(tmp_path: Path, when: str) -> None:
    """Answered while nothing runs or after the turn asks again: the command runs once, the next time it is asked."""
    first = ScriptedModel([elevated(), say("never")])
    async with running(tmp_path / "h", first) as app:
        sent = await app.submit(typed("make X"))
        row = await question(app)
    again = ScriptedModel([elevated(), elevated(), say("done")])
    if when == "before":
        answered = await _answered_offline(tmp_path / "h", row.id)
        assert answered == ""
    async with running(tmp_path / "h", again) as app:
        if when == "after":
            assert (await question(app)).id == row.id
            assert "Allowed once" in await told(app, f"/approve {row.id} allow-once")
        second = await question(app)
        assert second.id != row.id and (workspace(app) / "X").exists()
        await told(app, f"/approve {second.id} deny")
        assert (await app.wait(sent.id)).note == "done"
        results = [m for m in again.requests[-1].messages if isinstance(m, ToolResult)]
        assert [r.isError for r in results[-2:]] == [False, True]


async def _answered_offline(home: Path, ident: str) -> str:
    clock = SystemClock()
    store = await open_store(str(home), clock)
    try:
        return (await ApprovalBoard(store, clock).answer(ident, "allow-once", "cli")).problem
    finally:
        await store.close()


LEVELS = [
    ("/elevated on", "ask"),
    ("/elevated ask", "ask"),
    ("/elevated full", "run outside"),
    ("/elevated off", "run inside"),
    ("", "run inside"),
]


@pytest.mark.seed(122)
@pytest.mark.parametrize(("directive", "fate"), LEVELS)
async def test_elevated_levels_of_the_owner(tmp_path: Path, directive: str, fate: str) -> None:
    """Outside, the command can write beside the workspace; inside it cannot."""
    outside = tmp_path / "outside"
    outside.mkdir()
    model = ScriptedModel([call_tools(("exec", {"command": f"touch {outside}/X"})), say("done")])
    async with running(tmp_path / "h", model) as app:
        if directive:
            assert "Elevated mode" in await told(app, directive)
        sent = await app.submit(typed("make X"))
        if fate == "ask":
            row = await question(app)
            assert not (outside / "X").exists()
            await told(app, f"/approve {row.id} allow-once")
        await app.wait(sent.id)
        assert await app.approvals.pending() == []
        assert (outside / "X").exists() is (fate != "run inside")


@pytest.mark.seed(122)
async def test_elevated_is_refused_to_others_and_where_it_is_switched_off(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    write = f"touch {outside}/X"
    model = ScriptedModel([call_tools(("exec", {"command": write})), elevated(write), say("done")])
    async with running(tmp_path / "h", model) as app:
        assert "owner only" in await told(app, "/elevated full", MEMBER)
        await told(app, "/elevated full")
        sent = await app.submit(
            typed("/elevated full make X", MEMBER)
        )  # the owner's level does not lift a member's turn
        await app.wait(sent.id)
        assert not (outside / "X").exists() and await app.approvals.pending() == []
    async with running(tmp_path / "g", ScriptedModel([]), tools={"elevated": {"enabled": False}}) as app:
        said = await told(app, "/elevated on")
        assert said == "Elevated mode is not available: tools.elevated.enabled is false."
        assert await told(app, "/elevated off") == "Elevated mode disabled."


async def test_exec_words_of_the_session_act(tmp_path: Path) -> None:
    model = ScriptedModel([call_tools(("exec", {"command": "touch X"})), say("done")])
    async with running(tmp_path / "h", model) as app:
        assert await told(app, "/exec ask=always") == "Exec defaults set (ask=always)."
        sent = await app.submit(typed("make X"))
        row = await question(app)
        assert row.ask.host == "sandbox" and row.ask.allowed == ("allow-once", "deny")
        await told(app, f"/approve {row.id} allow-once")
        await app.wait(sent.id)
        assert (workspace(app) / "X").exists()


@pytest.mark.seed(228)
async def test_an_ordinary_turn_asks_nobody(tmp_path: Path) -> None:
    model = ScriptedModel([call_tools(("exec", {"command": "echo $((6*7)) > out && cat out"})), say("done")])
    async with running(tmp_path / "h", model) as app:
        await app.wait((await app.submit(typed("compute"))).id)
        assert "42" in result(model).text and await app.approvals.pending() == []


async def test_a_client_that_cannot_answer_is_not_kept_waiting(tmp_path: Path) -> None:
    model = ScriptedModel([elevated(), say("done")])
    async with running(tmp_path / "h", model) as app:
        sent = await app.submit(typed("make X", target=Target("http"), push=False))
        assert (await app.wait(sent.id)).note == "done"
        assert "nobody is here" in result(model).text and len(await app.approvals.pending()) == 1


async def test_watchers_see_the_card_as_an_event(tmp_path: Path) -> None:
    model, seen = ScriptedModel([elevated(), say("done")]), list[RunEvent]()
    async with running(tmp_path / "h", model) as app:
        sent = await app.submit(typed("make X", target=Target("terminal"), push=False), seen.append)
        row = await question(app)
        async with asyncio.timeout(60):
            while not any(isinstance(e, ToolUpdate) and e.approval == row.id for e in seen):
                await asyncio.sleep(0.005)
        await told(app, f"/approve {row.id} deny")
        await app.wait(sent.id)
