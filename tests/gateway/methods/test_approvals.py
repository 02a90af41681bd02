"""Approvals over a socket: a run asks, a client answers, and others can ask too."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gateway.whole import KEY, Place, gathered, named, place, until_over
from palinurus.gateway.rpc import APPROVALS, READ, MethodError
from palinurus.testing.model import ScriptedModel, call_tools, say

ASKING = {"tools": {"exec": {"security": "allowlist", "ask": "always", "host": "gateway"}}}


async def asked(here: Place, run: str) -> dict[str, Any]:
    await here.call("chat.send", sessionKey="main", message="do it", idempotencyKey=run)
    frames = await gathered(here.link, lambda f: f["event"] == "exec.approval.requested")
    found: dict[str, Any] = frames[-1]["payload"]
    return found


@pytest.mark.parametrize("decision", ["allow-once", "deny"])
async def test_a_run_waits_for_a_clients_answer(tmp_path: Path, decision: str) -> None:
    model = ScriptedModel([call_tools(("exec", {"command": "touch made.txt"})), say("done")])
    async with place(tmp_path / "h", model, **ASKING) as here, here.other(scopes=(APPROVALS,)) as judge:
        card = await asked(here, "k1")
        (listed,) = await judge.call("exec.approval.list", {})
        assert listed == card and card["request"]["command"] == "touch made.txt"
        assert card["request"]["sessionKey"] == KEY and "deny" in card["request"]["allowedDecisions"]
        one = await judge.call("exec.approval.get", {"id": card["id"]})
        assert one["commandText"] == "touch made.txt" and one["expiresAtMs"] == card["expiresAtMs"]
        error = await here.refused("exec.approval.resolve", id="zzzz", decision="deny")
        assert error.message == "unknown or expired approval id" and error.details["reason"] == "APPROVAL_NOT_FOUND"
        waiting = asyncio.create_task(judge.call("exec.approval.waitDecision", {"id": card["id"]}))
        assert (await judge.call("exec.approval.resolve", {"id": card["id"], "decision": decision}))["ok"] is True
        assert (await judge.call("exec.approval.resolve", {"id": card["id"], "decision": decision}))["ok"] is True
        assert (await asyncio.wait_for(waiting, 60))["decision"] == decision
        frames = await until_over(here.link, "k1")
        (told,) = named(frames, "exec.approval.resolved")
        assert (told["id"], told["decision"]) == (card["id"], decision)
        assert await judge.call("exec.approval.list", {}) == []
        workspace = Path(here.app.settings.agents["main"].workspace)
    assert (workspace / "made.txt").exists() is (decision == "allow-once")


async def test_only_approvers_hear_of_questions(tmp_path: Path) -> None:
    model = ScriptedModel([call_tools(("exec", {"command": "touch x"})), say("done")])
    async with place(tmp_path / "h", model, **ASKING) as here, here.other(scopes=(READ,)) as reader:
        card = await asked(here, "k1")
        with pytest.raises(MethodError, match=r"missing scope: operator\.approvals"):
            await reader.call("exec.approval.resolve", {"id": card["id"], "decision": "allow-once"})
        await here.call("exec.approval.resolve", id=card["id"], decision="deny")
        seen = await until_over(reader, "k1")
    assert not [f for f in seen if "approval.re" in f["event"]]


async def test_a_client_can_ask_and_another_answers(tmp_path: Path) -> None:
    async with place(tmp_path / "h") as here, here.other(scopes=(APPROVALS,)) as judge:
        wish = {"title": "Do it?", "description": "plugin asks", "twoPhase": True, "timeoutMs": 15000}
        first = await here.call("plugin.approval.request", **wish)
        assert first["status"] == "accepted" and first["id"].startswith("plugin:")
        (listed,) = await judge.call("plugin.approval.list", {})
        assert listed["id"] == first["id"] and listed["request"]["title"] == "Do it?"
        assert await judge.call("exec.approval.list", {}) == []
        await judge.call("plugin.approval.resolve", {"id": first["id"], "decision": "allow-once"})
        frames = await gathered(judge, lambda f: f["event"] == "plugin.approval.resolved")
        assert frames[-1]["payload"]["decision"] == "allow-once"
        both = asyncio.create_task(
            here.link.call("exec.approval.request", {"command": "uname -a", "twoPhase": True}, final=True)
        )
        card = (await gathered(judge, lambda f: f["event"] == "exec.approval.requested"))[-1]["payload"]
        error = None
        try:
            await judge.call("exec.approval.resolve", {"id": card["id"], "decision": "allow-always"})
        except MethodError as found:
            error = found
        assert error is not None and error.details["reason"] == "APPROVAL_ALLOW_ALWAYS_UNAVAILABLE"
        await judge.call("exec.approval.resolve", {"id": card["id"], "decision": "deny"})
        last = await asyncio.wait_for(both, 60)
    assert (last["id"], last["decision"]) == (card["id"], "deny")


async def test_the_rules_file_is_read_and_written_by_version(tmp_path: Path) -> None:
    async with place(tmp_path / "h") as here:
        empty = await here.call("exec.approvals.get")
        assert empty["exists"] is False and empty["file"] == {"version": 1, "defaults": {}, "agents": {}}
        rules = {"version": 1, "defaults": {"security": "allowlist"}, "agents": {}}
        done = await here.call("exec.approvals.set", file=rules, baseHash=empty["hash"])
        assert done["exists"] and done["file"]["defaults"] == {"security": "allowlist"}
        stale = await here.refused("exec.approvals.set", file=rules, baseHash=empty["hash"])
        assert stale.message.startswith("exec approvals changed since last load")
        assert (await here.refused("exec.approvals.set", file=rules)).message.startswith("exec approvals base hash")
        assert (await here.call("exec.approvals.get"))["hash"] == done["hash"]
