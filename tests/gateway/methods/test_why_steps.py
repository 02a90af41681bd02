"""Every step of a run leads to its place in the transcript, and a branch can begin there."""

from __future__ import annotations

from pathlib import Path

from gateway.whole import place
from palinurus.testing.model import ScriptedModel, call_tools, say


async def test_steps_name_their_entries_and_can_be_branched_from(tmp_path: Path) -> None:
    model = ScriptedModel(
        [call_tools(("ls", {"path": "."}), ("ls", {"path": "nowhere"})), say("Done."), say("Another end.")]
    )
    async with place(tmp_path / "h", model) as here:
        await here.say("look", "k1")
        steps = (await here.call("runs.trace", item="k1"))["timeline"]
        messages = (await here.call("chat.history", sessionKey="main"))["messages"]
        result = [step for step in steps if step["kind"] == "result"][-1]
        made = await here.call("sessions.branch", key="main", entryId=result["entry"], before=False)
        kept = (await here.call("chat.history", sessionKey=made["key"]))["messages"]
        await here.say("go on", "k2", made["key"])
        old = (await here.call("chat.history", sessionKey="main"))["messages"]
    ids = [message["__openclaw"]["id"] for message in messages]
    assert [message["role"] for message in messages] == ["user", "assistant", "toolResult", "toolResult", "assistant"]
    where = [(step["kind"], ids.index(step["entry"])) for step in steps if "entry" in step]
    assert sorted(where) == [
        ("accepted", 0), ("model", 1), ("model", 4), ("result", 2), ("result", 3), ("tool", 1), ("tool", 1),
    ]  # fmt: skip
    assert {step["call"] for step in steps if step["kind"] == "tool"} == {c["id"] for c in messages[1]["toolCalls"]}
    assert [message["role"] for message in kept][:3] == ["user", "assistant", "toolResult"]
    assert model.requests[-1].messages[-1].text == "go on" and len(old) == 5
