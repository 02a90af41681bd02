"""Runs on tape, played again: byte-equal with sockets closed, and where they part when something has changed. The whole
corpus of flow tests goes through the same with `pytest --replay tests/flow` (make torture PART=replay)."""

from __future__ import annotations

import asyncio
import gzip
import os
import socket
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent.runtimes.kit import running as foreign
from agent.test_turn_shell import wrapped
from flow.replays import FROZEN
from flow.test_app import running, settings
from flow.test_directives import OWNER
from flow.test_two_nodes import end, two
from palinurus.agent.tapes.compare import TapeVerdict, compare_tapes
from palinurus.agent.tapes.tape import list_tapes, read_tape
from palinurus.app import App
from palinurus.app.replay import ReplayBranch, ReplayWorld, close_sockets, load_tape, play_tape
from palinurus.core.types.events import RunEvent
from palinurus.core.types.inbound import TurnOptions
from palinurus.core.types.keys import SessionKey
from palinurus.errors import BadRequest, NotFound
from palinurus.sessions.record import SessionRecord
from palinurus.store.port import SessionRow
from palinurus.testing.channel import FakeChannel
from palinurus.testing.model import ScriptedModel, ScriptStep, StreamGate, call_tools, fail, hold_at, say
from support import inbound, kinds

RECORD = {"record": {"enabled": True}}
NOW = ReplayBranch()


async def replay(home: Path, item: str = "", branch: ReplayBranch = FROZEN, **changes: Any) -> TapeVerdict:
    tape = read_tape(str(home), item or list_tapes(str(home))[-1])
    with close_sockets() as tried:
        made = await play_tape(tape, ReplayWorld(settings(home, **RECORD, **changes), {}), branch)
    return compare_tapes(tape, made, tried)


async def ask(app: App, text: str, **options: Any) -> str:
    accepted = await app.submit(inbound(text, sender=OWNER, options=TurnOptions(**options)))
    await app.wait(accepted.id)
    return accepted.id


async def talk(app: App, gate: StreamGate) -> None:
    await ask(app, "go")


async def steer(app: App, gate: StreamGate) -> None:
    first = await app.submit(inbound("go", sender=OWNER, event="1"))
    await gate.wait_reached(60)
    await app.submit(inbound("and this", sender=OWNER, event="2", options=TurnOptions(queue="steer")))
    gate.open()
    await app.wait(first.id)


async def stop(app: App, gate: StreamGate) -> None:
    first = await app.submit(inbound("go", sender=OWNER))
    await gate.wait_reached(60)
    await app.abort(first.claim.session if first.claim else "agent:main:main", "user")
    await app.wait(first.id)


async def hook(app: App, gate: StreamGate) -> None:
    app.hooks.on("before_prompt_build", lambda payload: {"prependContext": "the moon is full"})
    app.hooks.on("before_tool_call", lambda payload: {"block": True, "blockReason": "not today"})
    await ask(app, "go")


async def overtake(app: App, gate: StreamGate) -> None:
    """Somebody else begins the session while the plan is made: it is made again, with theirs."""
    key, begun = SessionKey("main", "main"), [False]

    async def begin(payload: dict[str, Any]) -> None:
        if not begun[0]:
            begun[0] = True
            now = app.clock.now()
            data = SessionRecord.fresh(key, now, "begun-by-another").encode()
            await app.store.save_session(SessionRow(str(key), "main", "begun-by-another", now, data=data))

    app.hooks.on("before_prompt_build", begin)
    await ask(app, "go")
    row = await app.store.session(str(key))
    assert row is not None and row.session_id == "begun-by-another"


MANY = call_tools(*(("read", {"path": f"{n}.txt"}) for n in range(20)))
READS = call_tools(("read", {"path": "a.txt"}), ("find", {"pattern": "*"}), ("read", {"path": "none"}))
SCENES: dict[str, tuple[list[ScriptStep], Callable[[App, StreamGate], Awaitable[None]]]] = {
    "a plain answer": ([say("Hello.", thinking="hm")], talk),
    "tools side by side": ([READS, say("Done.")], talk),
    "a model that fails first": ([fail("overloaded"), fail("server", after="Hal"), say("Hello.")], talk),
    "steered": ([say("held"), READS, say("Both.")], steer),
    "stopped": ([say("held")], stop),
    "hooks": ([READS, say("Done.")], hook),
    "many tools and a hook": ([MANY, say("Done.")], hook),
    "a session begun meanwhile": ([READS, say("Done.")], overtake),
}


@pytest.mark.parametrize("scene", SCENES)
async def test_a_run_comes_out_byte_for_byte_with_sockets_closed(scene: str, tmp_path: Path) -> None:
    home, gate = tmp_path / "h", StreamGate()
    steps, act = SCENES[scene]
    script = [hold_at(say("first part, then more"), gate) if step == say("held") else step for step in steps]
    async with running(home, ScriptedModel(script), FakeChannel(), **RECORD) as app:
        Path(app.settings.agents["main"].workspace, "a.txt").write_text("one\n")
        await act(app, gate)
    for item in list_tapes(str(home)):
        verdict = await replay(home, item)
        assert verdict.same and not verdict.tried, verdict
        assert verdict.counts["lines"][1] and verdict.counts["events"][1] >= 4
    assert list_tapes(str(home))


async def test_what_changed_is_named_and_the_recorded_files_still_give_the_recorded_run(tmp_path: Path) -> None:
    home = tmp_path / "h"
    async with running(home, ScriptedModel([READS, say("Done.")]), **RECORD) as app:
        agents = Path(app.settings.agents["main"].workspace, "AGENTS.md")
        agents.write_text("Be brief.\n")
        await ask(app, "go")
    assert (await replay(home, branch=NOW)).same
    agents.write_text("Be brief.\nAnswer in Latin.\n")
    verdict = await replay(home, branch=NOW)
    first = verdict.differences[0]
    assert not verdict.same and first.step == 1 and first.why == "AGENTS.md changed" and "Latin" in first.now
    assert verdict.counts["lines"][0] == verdict.counts["lines"][1]  # what came of it is the tape's
    assert (await replay(home)).same
    other = await replay(home, tools={"deny": ["find"]})
    assert any(one.why == "tool find is gone" for one in other.differences)


async def test_a_run_of_a_fleet_is_played_with_what_another_node_heard(
    tmp_path: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The conversation is in the database they share: it is read before sockets are closed."""
    monkeypatch.setenv("FLEET", server)
    models = [ScriptedModel([say(f"{name}{n}") for n in range(2)]) for name in "ab"]
    async with two(tmp_path / "h", models[0], models[1], slow="fleet", **RECORD) as apps:
        for n in range(4):
            await end(apps[n % 2], (await apps[n % 2].submit(inbound(f"q{n}", push=False))).id)
    for name in "ab":
        home = tmp_path / "h" / name
        assert len(list_tapes(str(home))) == 2
        for tape in [load_tape(str(home), item) for item in list_tapes(str(home))]:
            there = settings(home, store={"sharedWorkspaces": True}, **RECORD)
            with close_sockets() as tried:
                verdict = compare_tapes(tape, await play_tape(tape, ReplayWorld(there, {}), FROZEN), tried)
            assert verdict.same and not tried, verdict


async def test_nothing_gets_out_and_who_tries_is_named() -> None:
    with close_sockets() as tried, pytest.raises(ConnectionRefusedError, match="offline"):
        await asyncio.to_thread(socket.create_connection, ("127.0.0.1", 9), 1)
    assert any("127.0.0.1" in one for one in tried)


async def test_credentials_are_not_on_the_tape_and_the_run_is_still_the_same(tmp_path: Path) -> None:
    home, secret = tmp_path / "h", "sk-" + "a1b2c3d4" * 4
    async with running(home, ScriptedModel([READS, say(f"The key is {secret}.")], chunk=4), **RECORD) as app:
        Path(app.settings.agents["main"].workspace, "a.txt").write_text(f"token {secret}\n")
        await ask(app, f"my key is {secret}")
    (name,) = os.listdir(home / "tapes")
    data = gzip.decompress((home / "tapes" / name).read_bytes())
    assert secret.encode() not in data and secret[3:15].encode() not in data
    assert (await replay(home)).same


async def test_only_whole_tapes_are_kept_and_a_torn_one_is_refused(tmp_path: Path) -> None:
    home, gate = tmp_path / "h", StreamGate()
    async with running(home, ScriptedModel([hold_at(say("never said"), gate)]), **RECORD) as app:
        item = (await app.submit(inbound("go", sender=OWNER))).id
        await gate.wait_reached(60)
        assert not (home / "tapes").exists()  # what a kill leaves here: nothing
    assert list_tapes(str(home)) == []  # it was handed back, not ended
    async with running(home, ScriptedModel([say("said")]), **RECORD) as app:
        await app.wait(item)
    assert list_tapes(str(home)) == [item]
    file = home / "tapes" / f"{item}.jsonl.gz"
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(BadRequest, match="cannot be read"):
        read_tape(str(home), item)
    with pytest.raises(NotFound, match="no tape"):
        read_tape(str(home), "zzz")


async def test_sessions_are_recorded_apart_and_nothing_is_without_being_asked_for(tmp_path: Path) -> None:
    home = tmp_path / "h"
    async with running(home, ScriptedModel([say("ok")], repeat=True)) as app:
        await ask(app, "one")
        await app.tapes.choose("agent:main:main", True)
        recorded = await ask(app, "two")
        await app.tapes.choose("agent:main:main", None)
        await ask(app, "three")
    assert list_tapes(str(home)) == [recorded]
    async with running(home, ScriptedModel([say("ok")], repeat=True)) as app:
        await app.tapes.choose("*", True)
    async with running(home, ScriptedModel([say("ok")], repeat=True)) as app:  # kept over a restart
        await ask(app, "four")
        await app.tapes.close()  # a tape is written beside what comes next
        assert app.tapes.describe()["count"] == 2 and app.tapes.is_recorded("any")
        assert app.tapes.thin(0.0) == 0 and app.tapes.thin(4e9) == 2  # they go with their messages


async def test_who_watches_a_run_that_is_recorded_sees_all_of_it_and_what_is_steered_in_ends(tmp_path: Path) -> None:
    gate, seen, also = StreamGate(), list[RunEvent](), list[RunEvent]()
    script = [hold_at(say("first part, then more"), gate), say("Both.")]
    async with running(tmp_path / "h", ScriptedModel(script), **RECORD) as app:
        first = await app.submit(inbound("go", sender=OWNER, event="1"), seen.append)
        await gate.wait_reached(60)
        steered = inbound("and", sender=OWNER, event="2", options=TurnOptions(queue="steer"))
        await app.submit(steered, also.append)
        gate.open()
        assert (await app.wait(first.id)).note == "first part, then more\n\nBoth."
    assert kinds(seen).count("agent_end") == 1 == kinds(seen).count("agent_start")
    assert seen[-1] == also[-1]  # who had written that watches the run, too


@pytest.mark.parametrize("why", ["too often", "the store", "another program"])
async def test_what_cannot_be_played_again_is_not_on_tape(tmp_path: Path, why: str) -> None:
    home = tmp_path / "h"
    if why == "another program":
        home.mkdir()
        async with foreign(home, "claude-cli/claude-opus-4-8", RECORD) as app:
            outcome = (await app.wait(await ask(app, "hello"))).outcome
    elif why == "the store":
        async with wrapped(home, ScriptedModel([READS, say("Done.")]), **RECORD) as (app, store):
            store.fails["append"] = 1
            outcome = (await app.wait(await ask(app, "go"))).outcome
    else:
        async with running(home, ScriptedModel([hold_at(say("never"), StreamGate(), 0)])) as app:
            item = (await app.submit(inbound("go", sender=OWNER))).id
        with closing(sqlite3.connect(home / "state.db")) as conn, conn:
            conn.execute("UPDATE inbox SET attempts = 99")
        async with running(home, ScriptedModel([]), **RECORD) as app:
            outcome = (await app.wait(item)).outcome
    assert outcome == {"too often": "dead", "the store": "failed"}.get(why, "answered")
    assert list_tapes(str(home)) == []
