"""Seeing and ending sub-agents over a socket."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flow.test_app import until
from gateway.whole import place
from palinurus.core.types.messages import ToolResult
from palinurus.core.types.model import ModelRequest
from palinurus.testing.model import ScriptedModel, StreamGate, call_tools, hold_at, say


async def test_a_sub_agent_is_listed_steered_and_ended(tmp_path: Path) -> None:
    gate = StreamGate()

    def answer(request: ModelRequest) -> Any:
        text = "\n".join(message.text for message in request.messages)
        if "row to the island" in text and "start it" not in text:
            return hold_at(say("rowing"), gate, 0)
        started = any(isinstance(message, ToolResult) for message in request.messages)
        return say("ok") if started else call_tools(("sessions_spawn", {"task": "row to the island", "label": "rower"}))

    model = ScriptedModel([answer], repeat=True)
    async with place(tmp_path / "h", model) as here:
        assert (await here.call("subagents.list", sessionKey="main"))["subagents"] == []
        await here.say("start it", "k1")
        await until(lambda: any("row to the island" in m.text for r in model.requests for m in r.messages))
        (row,) = (await here.call("subagents.list", sessionKey="main"))["subagents"]
        assert row["status"] in ("running", "queued")
        before = len(model.requests)
        steered = await here.call("subagents.steer", sessionKey="main", target="1", message="mind the rocks")
        assert steered["ok"] is True
        await until(lambda: any("mind the rocks" in m.text for r in model.requests[before:] for m in r.messages))
        done = await here.call("subagents.kill", sessionKey="main", target="rower")
        assert done["ok"] and done["killed"] == 1
        again = await here.refused("subagents.kill", sessionKey="main", target="9")
        assert again.message
        gate.open()
