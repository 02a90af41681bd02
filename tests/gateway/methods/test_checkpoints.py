"""Going back to before a conversation was shortened."""

from __future__ import annotations

from pathlib import Path

from gateway.whole import Place, place
from palinurus.sessions.entries import CompactionEntry
from palinurus.testing.model import ScriptedModel, say


async def shortened(here: Place) -> str:
    """Two turns, a summary of the first one, a third turn. Returns the checkpoint's id."""
    await here.say("first", "k1")
    await here.say("second", "k2")
    context = here.server.clients.context
    assert context is not None
    seen = await context.reader.load(context.reader.key("main"))
    transcript = await context.reader.transcript(seen)
    assert transcript is not None
    kept = transcript.path_to_leaf()[2].id
    entry = CompactionEntry(summary="they met", firstKeptEntryId=kept, tokensBefore=900, details={"reason": "manual"})
    lines = transcript.add_entry(entry, here.app.clock.now())
    await here.app.store.write(lines)
    await here.say("third", "k3")
    return lines[-1].id


async def test_checkpoints_are_listed_branched_and_taken_back(tmp_path: Path) -> None:
    model = ScriptedModel([say("one"), say("two"), say("three"), say("four"), say("five")])
    async with place(tmp_path / "h", model) as here:
        assert (await here.call("sessions.compaction.list", key="main"))["checkpoints"] == []
        point = await shortened(here)
        assert "they met" in model.requests[-1].messages[0].text
        (listed,) = (await here.call("sessions.compaction.list", key="main"))["checkpoints"]
        assert (listed["checkpointId"], listed["tokensBefore"], listed["reason"]) == (point, 900, "manual")
        got = await here.call("sessions.compaction.get", key="main", checkpointId=point)
        assert got["checkpoint"]["summary"] == "they met" and got["checkpoint"]["inUse"] is True
        made = await here.call("sessions.compaction.branch", key="main", checkpointId=point)
        told = (await here.call("chat.history", sessionKey=made["key"]))["messages"]
        assert [m["content"] for m in told if m["role"] == "user"] == ["first", "second"]
        done = await here.call("sessions.compaction.restore", key="main", checkpointId=point)
        assert done["checkpoint"]["undone"] is True
        await here.say("fourth", "k4")
        seen = [m.text for m in model.requests[-1].messages]
        assert seen[0] == "first" and "third" in seen and not any("they met" in text for text in seen)
        missing = await here.refused("sessions.compaction.get", key="main", checkpointId="nope")
        assert missing.message == "checkpoint not found: nope"
