"""What a turn leaves for later has no more rights than the turn had: jobs, wake-ups, and who is asked in whose name."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from flow.test_app import running, until
from gateway.whole import place
from palinurus.app import App
from palinurus.core.policy.audience import MEMORY_TOOLS
from palinurus.core.types.caller import READ, WRITE
from palinurus.core.types.inbound import Inbound, Sender, Target
from palinurus.core.types.messages import ToolResult
from palinurus.core.types.model import ModelRequest
from palinurus.testing.model import ScriptedModel, ScriptedTurn, call_tools, say
from palinurus.tools.program.cron import CronJobMaker

MARK = "markofmemory"
ME = Sender("1", owner=True, allowed=True)
GROUP = {"kind": "group", "target": Target("fake", "-100"), "mentioned": True}
NEVER = {"schedule": {"kind": "every", "everyMs": 10**11}}
YES = {"taint": {"allow": ["cron"]}}  # nobody is asked here


class Caller(ScriptedModel):
    """Makes the calls it is given in the turn that says `go`, and answers every other turn."""

    def __init__(self, *calls: tuple[str, dict[str, Any]]) -> None:
        super().__init__([self._play], repeat=True)
        self.calls = calls
        self.answers: list[str] = []

    def _play(self, request: ModelRequest) -> ScriptedTurn:
        last = request.messages[-1]
        if isinstance(last, ToolResult):
            self.answers += [m.text for m in request.messages if isinstance(m, ToolResult)][-len(self.calls) :]
            return say("done")
        return call_tools(*self.calls) if last.text.endswith("go") else say("done")


@asynccontextmanager
async def site(home: Path, model: ScriptedModel, **config: Any) -> AsyncIterator[App]:
    (home / "workspace").mkdir(parents=True)
    (home / "workspace" / "MEMORY.md").write_text(f"The lobster is {MARK}.\n")
    (home / "workspace" / "page.txt").write_text("words of somebody")
    async with running(home, model, **config) as app:
        yield app


async def turn(app: App, text: str = "go", **changes: Any) -> None:
    fields: dict[str, Any] = {"target": Target("fake", "1"), "sender": ME, "event": text, "text": text, "at": 0}
    sent = msgspec.structs.replace(Inbound(**fields), push=False, **changes)
    await app.wait((await app.submit(sent)).id)


async def fire(app: App, model: ScriptedModel) -> ModelRequest:
    """The first request of the run that the only job starts now."""
    before, (job,) = len(model.requests), app.scheduler.jobs(disabled=True)
    await app.scheduler.run(job["id"])
    return await until_asked(model, before)


def knows(request: ModelRequest) -> bool:
    """Has it the owner's notes, or a way to them?"""
    return MARK in request.prompt.text or any(tool.name in MEMORY_TOOLS for tool in request.tools)


async def until_asked(model: ScriptedModel, before: int) -> ModelRequest:
    async with asyncio.timeout(60):
        while len(model.requests) <= before:
            await asyncio.sleep(0.005)
    return model.requests[before]


@pytest.mark.parametrize(("where", "private"), [({}, True), (GROUP, False)])
async def test_a_job_made_where_others_read_along_is_told_nothing_the_owner_noted(
    tmp_path: Path, where: dict[str, Any], private: bool
) -> None:
    model = Caller(("cron", {"action": "add", "job": {**NEVER, "payload": {"message": "tell us the news"}}}))
    async with site(tmp_path / "h", model, tools=YES) as app:
        await turn(app, "every day make a job: go", **where)
        assert knows(await fire(app, model)) is private


@pytest.mark.parametrize(("where", "private"), [({"session": "other"}, True), (GROUP, False)])
async def test_a_wake_up_from_where_others_read_along_is_told_nothing_either(
    tmp_path: Path, where: dict[str, Any], private: bool
) -> None:
    model = Caller(("cron", {"action": "wake", "mode": "now", "text": "say what you know"}))
    async with site(tmp_path / "h", model, tools=YES) as app:
        await turn(app, **where)
        woken = await until_asked(model, 2)
        assert "say what you know" in woken.messages[-1].text and knows(woken) is private


async def test_a_client_that_may_write_wakes_nobody_who_knows_what_the_owner_noted(tmp_path: Path) -> None:
    model = Caller()
    async with place(tmp_path / "h", model) as here, here.other(scopes=(READ, WRITE)) as phone:
        Path(here.app.settings.agents["main"].workspace, "MEMORY.md").write_text(MARK)
        for at, link in enumerate((phone, here.link)):
            await link.call("wake", {"mode": "now", "text": "say what you know"})
            woken = await until_asked(model, at)
            assert knows(woken) is (link is here.link)


@pytest.mark.parametrize("asked", ["update", "wake"])
async def test_words_of_others_stay_theirs_in_a_job_that_is_changed_and_in_a_wake_up(
    tmp_path: Path, asked: str
) -> None:
    """As they do in a job that is made: `add` has always kept where they came from."""
    model = Caller(("read", {"path": "page.txt"}))
    async with site(tmp_path / "h", model, tools=YES) as app:
        made = await app.scheduler.add(
            {**NEVER, "name": "j", "payload": {"message": "look"}}, CronJobMaker(agent="main")
        )
        await turn(app, session="one")
        call: dict[str, Any] = {"action": "wake", "mode": "now", "text": "send it all"}
        if asked == "update":
            call = {"action": "update", "jobId": made["id"], "patch": {"payload": {"message": "send it all"}}}
        model.calls = (("cron", call),)
        await turn(app, "now go", session="one")
        before = len(model.requests)
        told = await fire(app, model) if asked == "update" else model.requests[-1]
        if asked == "wake" and "send it all" not in told.messages[-1].text:
            told = await until_asked(model, before)
        assert "send it all" in told.messages[-1].text
        assert "file page.txt" in told.messages[-1].source


AGENTS = {
    "defaults": {"model": {"primary": "fake/m"}},
    "list": [{"id": "main", "default": True}, {"id": "guest", "tools": {"deny": ["exec"]}}],
}
OTHERS = [
    ("get", {"jobId": "theirs"}),
    ("add", {"job": {**NEVER, "agentId": "main", "payload": {"message": "x"}}}),
    ("add", {"job": {**NEVER, "sessionTarget": "session:agent:main:main", "payload": {"message": "x"}}}),
    ("update", {"jobId": "theirs", "patch": {"payload": {"message": "x"}}}),
    ("update", {"jobId": "mine", "patch": {"agentId": "main"}}),
    ("update", {"jobId": "mine", "patch": {"sessionTarget": "session:agent:main:main"}}),
    ("run", {"jobId": "theirs"}), ("runs", {"jobId": "theirs"}),
    ("remove", {"jobId": "theirs"}),
]  # fmt: skip


@pytest.mark.parametrize("open_", [False, True])
async def test_jobs_reach_no_agent_that_letters_do_not_reach(tmp_path: Path, open_: bool) -> None:
    """An agent without exec had what it wanted run by one that has it (tools.agentToAgent is off by default)."""
    model = Caller(*(("cron", {"action": action, **args}) for action, args in OTHERS))
    tools = {**YES, **({"agentToAgent": {"enabled": True, "allow": ["*"]}} if open_ else {})}
    async with site(tmp_path / "h", model, tools=tools, agents=AGENTS) as app:
        job = {**NEVER, "payload": {"message": "a secret plan"}}
        await app.scheduler.add({**job, "name": "theirs"}, CronJobMaker(agent="main"))
        await app.scheduler.add({**job, "name": "mine"}, CronJobMaker(agent="guest"))
        before = json.dumps(app.scheduler.jobs())
        model.calls = (*model.calls, ("cron", {"action": "list"}))
        await turn(app, "every day make a job: go", session="agent:guest:main", agent="guest")
        *done, listed = model.answers
        assert ("a secret plan" in "".join(done)) is open_
        if not open_:
            assert all("agentToAgent" in text for text in done), done
            assert json.dumps(app.scheduler.jobs()) == before and "mine" in listed
            assert not any("agent:main" in r.owner for r in model.requests)


@pytest.mark.parametrize("action", ["list", "get", "runs"])
async def test_who_looks_at_a_job_has_read_what_it_says(tmp_path: Path, action: str) -> None:
    """Its words may be a page's, and what came of its runs is what another conversation said."""
    model = Caller()
    async with site(tmp_path / "h", model, tools=YES) as app:
        maker = CronJobMaker(agent="main", source="agreed\nweb https://a.example")
        made = await app.scheduler.add({**NEVER, "name": "j", "payload": {"message": "look"}}, maker)
        await fire(app, model)
        await until(lambda: bool(model.requests) and not app.scheduler.job(made["id"])["state"].get("runningAtMs"))
        model.calls = (("cron", {"action": action, "jobId": made["id"]}), ("cron", {"action": "status"}))
        await turn(app, session="other")
        looked, status = [m for m in model.requests[-1].messages if isinstance(m, ToolResult)]
        wanted = f"session runs {made['id']}" if action == "runs" else "web https://a.example"
        assert (looked.source, status.source) == (wanted, "")


async def test_a_promise_holds_the_words_its_conversation_has_seen(tmp_path: Path) -> None:
    """Not only those of the turn that made it; its job may run when a new day has begun a clean conversation."""
    script = [call_tools(("read", {"path": "page.txt"})), say("Read."), say("I'll send it to bob again tomorrow.")]
    model = ScriptedModel(script)
    async with site(tmp_path / "h", model) as app:
        await turn(app, "read page.txt")
        await turn(app, "and?")
        await app.promises.close()
        await turn(app, "/tasks accept 1")
        (job,) = app.scheduler.jobs()
        assert job["source"].split("\n") == ["agreed", "file page.txt"]
