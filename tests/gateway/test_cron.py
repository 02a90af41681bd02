"""cron.*, heartbeats and wakes over the gateway, on a real App."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from flow.test_app import until
from gateway.test_broadcaster import KEY, OWNER, face
from gateway.whole import gathered, named, place
from palinurus.core.schedule.fire import EverySchedule, MissedSpan
from palinurus.core.types.caller import Caller
from palinurus.gateway.methods import cron
from palinurus.gateway.rpc import READ, WRITE, MethodError
from palinurus.testing.model import ScriptedModel, say

EVERY = {"kind": "every", "everyMs": 3_600_000}
TURN = {"kind": "agentTurn", "message": "Look at the sea"}


async def test_a_job_is_made_shown_changed_run_and_removed(tmp_path: Path) -> None:
    async with face(tmp_path / "h", ScriptedModel([say("It is blue.")])) as gate:
        detach = cron.attach_schedules(gate, gate.host.scheduler)  # type: ignore[arg-type]
        job = await gate.call("cron.add", name="sea", schedule=EVERY, payload=TURN, wakeMode="now")
        assert job["sessionTarget"] == "isolated" and job["state"]["nextRunAtMs"] == job["createdAtMs"] + 3_600_000
        assert (await gate.call("cron.status"))["jobs"] == 1
        listed = await gate.call("cron.list", includeDisabled=True, query="SEA")
        assert listed["jobs"] == [job] and (listed["total"], listed["hasMore"]) == (1, False)
        revision = listed["snapshotRevision"]  # pages of one list; newer clients want it
        again = await gate.call("cron.list", includeDisabled=True)
        assert revision and again["snapshotRevision"] == revision
        changed = await gate.call("cron.update", id=job["id"], patch={"enabled": False, "name": "waves"})
        assert (changed["enabled"], changed["name"]) == (False, "waves")
        assert (await gate.call("cron.list"))["jobs"] == []
        ran = await gate.call("cron.run", jobId=job["id"], mode="force")
        assert ran["enqueued"] and ran["runId"].startswith(f"manual:{job['id']}:")
        await until(lambda: bool(gate.events("cron", action="finished")))
        (entry,) = (await gate.call("cron.runs", id=job["id"]))["entries"]
        assert (entry["status"], entry["summary"], entry["jobName"]) == ("ok", "It is blue.", "waves")
        assert (await gate.call("cron.runs", scope="all"))["total"] == 1
        assert await gate.call("cron.remove", id=job["id"]) == {"ok": True, "removed": True}
        assert [p["action"] for p in gate.events("cron")] == ["added", "updated", "started", "finished", "removed"]
        detach()


async def test_a_row_of_missed_times_and_each_of_them(tmp_path: Path) -> None:
    async with face(tmp_path / "h", ScriptedModel([])) as gate:
        job = await gate.call("cron.add", name="sea", schedule=EVERY, payload=TURN)
        row = MissedSpan(job["id"], 0, 3_600_000 * 9, 9, EverySchedule(3_600_000), "missed")
        entry = {"ts": 2, "jobId": job["id"], "jobName": "sea", "status": "skipped", "runId": "x", "runAtMs": row.upto}
        entry |= {"summary": "9 due times missed", "missed": msgspec.to_builtins(row)}
        ran = {**entry, "ts": 1, "status": "ok", "runId": "y", "runAtMs": 7, "summary": "blue"}
        ran.pop("missed")
        store = gate.host.scheduler._port.store  # type: ignore[attr-defined]
        await store.put_record("jobruns", job["id"], msgspec.json.encode([entry, ran]))
        folded = await gate.call("cron.runs", id=job["id"])
        assert [e["summary"] for e in folded["entries"]] == ["9 due times missed", "blue"] and folded["total"] == 2
        page = await gate.call("cron.runs", id=job["id"], slots=True, limit=4, offset=4)
        assert [e["runAtMs"] // 3_600_000 for e in page["entries"]] == [5, 4, 3, 2]
        assert (page["total"], page["hasMore"], page["nextOffset"]) == (10, True, 8)
        last = await gate.call("cron.runs", id=job["id"], slots=True, limit=4, offset=8)
        assert [e["summary"] for e in last["entries"]] == ["missed", "blue"] and not last["hasMore"]
        one = await gate.call("cron.runs", id=job["id"], slots=True, runId=f"{job['id']}:{3_600_000 * 3}")
        assert len(one["entries"]) == 1
        assert (await gate.call("cron.runs", id=job["id"], status="ok"))["total"] == 1


async def test_what_cannot_be_is_refused_in_words(tmp_path: Path) -> None:
    async with face(tmp_path / "h", ScriptedModel([])) as gate:
        with pytest.raises(MethodError, match="five fields"):
            await gate.call("cron.add", name="x", schedule={"kind": "cron", "expr": "9"}, payload=TURN)
        with pytest.raises(MethodError, match="no job is called"):
            await gate.call("cron.get", id="nobody")
        with pytest.raises(MethodError, match="id required"):
            await gate.call("cron.run")
        with pytest.raises(msgspec.ValidationError, match="colour"):
            await gate.call("cron.add", name="x", schedule=EVERY, payload=TURN, colour="red")


async def test_wakes_and_system_events(tmp_path: Path) -> None:
    model = ScriptedModel([say("one"), say("two")])
    async with face(tmp_path / "h", model) as gate:
        assert await gate.call("wake", mode="next-heartbeat", text="The ship is in") == {"ok": True}
        assert await gate.call("system-event", text="So is the boat") == {"ok": True}
        assert model.requests == []
        assert (await gate.call("status"))["queuedSystemEvents"] == ["The ship is in", "So is the boat"]
        await gate.call("wake", mode="now", text="Look up")
        await until(lambda: bool(gate.events("chat", state="final")))
        heard = model.requests[0].messages[-1]
        assert heard.text == "System: The ship is in\nSystem: So is the boat\n\nSystem: Look up"
        writer = msgspec.structs.replace(OWNER, caller=Caller("owner", frozenset({WRITE, READ})))
        await gate.call("wake", writer, mode="now", text="/think high do it", sessionKey=KEY)
        await until(lambda: len(gate.events("chat", state="final")) == 2)
    asked = model.requests[1]
    assert asked.messages[-1].source == "client test" and "/think high" in asked.messages[-1].text  # type: ignore[union-attr]
    assert "cron" in {t.name for t in model.requests[0].tools} and "cron" not in {t.name for t in asked.tools}


async def test_heartbeats_are_shown_and_switched(tmp_path: Path) -> None:
    async with face(tmp_path / "h", ScriptedModel([say("All dry.")])) as gate:
        assert await gate.call("last-heartbeat") is None
        (beat,) = (await gate.call("status"))["heartbeat"]["agents"]
        assert (beat["enabled"], beat["every"], beat["everyMs"]) == (True, "30m", 1_800_000)
        gate.host.scheduler._beats["main"].request()
        gate.host.scheduler.nudge()
        await until(lambda: gate.host.scheduler.last_heartbeat() is not None)
        last = await gate.call("last-heartbeat")
        assert (last["status"], last["preview"], last["agentId"]) == ("skipped", "All dry.", "main")
        assert await gate.call("set-heartbeats", enabled=False) == {"ok": True, "enabled": False}
        (beat,) = (await gate.call("status"))["heartbeat"]["agents"]
        assert not beat["enabled"]


async def test_every_client_hears_of_a_job_once(tmp_path: Path) -> None:
    """The room begins to listen with its first client; the second must not make it hear twice."""
    async with place(tmp_path / "h") as here, here.other() as second:
        job = await here.call("cron.add", name="sea", schedule=EVERY, payload=TURN)
        await here.call("cron.remove", id=job["id"])
        for link in (here.link, second):
            frames = await gathered(link, lambda f: f["event"] == "cron" and f["payload"]["action"] == "removed")
            assert [told["action"] for told in named(frames, "cron")] == ["added", "removed"]
