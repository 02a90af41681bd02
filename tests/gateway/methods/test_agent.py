"""agent and agent.wait over a socket."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from flow.test_app import until
from gateway.whole import KEY, place
from palinurus.gateway.rpc import WRITE, MethodError
from palinurus.testing.model import ScriptedModel, StreamGate, fail, hold_at, say


async def test_two_answers_under_one_id(tmp_path: Path) -> None:
    gate = StreamGate()
    model = ScriptedModel([hold_at(say("four"), gate, 0)])
    async with place(tmp_path / "h", model) as here, here.other(scopes=(WRITE,)) as link:
        first = await link.call("agent", {"message": "2+2", "idempotencyKey": "k1"})
        assert (first["status"], first["runId"], first["sessionKey"]) == ("accepted", "k1", KEY)
        early = await link.call("agent.wait", {"runId": "k1", "timeoutMs": 0})
        assert (early["status"], early["timeoutPhase"]) == ("timeout", "wait")
        both = asyncio.create_task(link.call("agent", {"message": "2+2", "idempotencyKey": "k1"}, final=True))
        waiting = asyncio.create_task(link.call("agent.wait", {"runId": "k1"}))
        await until(lambda: here.app.dispatcher.running(KEY))
        gate.open()
        last = await asyncio.wait_for(both, 60)
        ended = await asyncio.wait_for(waiting, 60)
        kept = await link.call("agent.result", {"runId": "k1"})
        assert (kept["status"], kept["failed"], kept["text"], kept["sessionKey"]) == ("done", False, "four", KEY)
        assert kept["endedAt"] >= kept["acceptedAt"] > 0
        async with here.other(scopes=(WRITE,)) as stranger:
            with pytest.raises(MethodError, match="no message of yours"):  # another device's
                await stranger.call("agent.result", {"runId": "k1"})
    assert last["result"]["payloads"] == [{"text": "four", "mediaUrl": None}] and last["status"] == "ok"
    assert last["result"]["meta"]["agentMeta"]["model"] == "m"
    assert (ended["status"], ended["stopReason"]) == ("ok", "stop") and ended["endedAt"] >= ended["startedAt"]
    assert len(model.requests) == 1


async def test_a_run_that_fails_fails_the_call(tmp_path: Path) -> None:
    async with place(tmp_path / "h", ScriptedModel([fail("auth", "no such key")], repeat=True)) as here:
        with pytest.raises(MethodError) as found:
            await asyncio.wait_for(here.link.call("agent", {"message": "x", "idempotencyKey": "k1"}, final=True), 60)
        waited = await here.call("agent.wait", runId="k1")
    assert "no such key" in found.value.message and waited["status"] == "error"
