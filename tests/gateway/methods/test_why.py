"""Why an answer is as it is, and what happened on the way."""

from __future__ import annotations

from pathlib import Path

from flow.test_app import until
from gateway.whole import KEY, place
from palinurus.core.types.usage import TokenUsage
from palinurus.gateway.rpc import READ
from palinurus.testing.model import ScriptedModel, ScriptedTurn, call_tools


def said(text: str) -> ScriptedTurn:
    return ScriptedTurn(text=text, usage=TokenUsage(input=20, output=5, cacheRead=80, totalTokens=105))


async def test_a_message_is_explained_from_what_is_on_file(tmp_path: Path) -> None:
    model = ScriptedModel([call_tools(("memory_search", {"query": "boat"})), said("Halcyon."), said("Yes.")])
    async with place(tmp_path / "h", model, tools={"deny": ["exec"]}) as here, here.other(scopes=(READ,)) as reader:
        workspace = Path(here.app.settings.agents["main"].workspace)
        (workspace / "MEMORY.md").write_text("# Facts\n\nThe boat is called Halcyon.\n")
        await here.say("name the boat", "k1")
        await here.say("sure?", "k2")
        messages = (await here.call("chat.history", sessionKey="main"))["messages"]
        first = await here.call("chat.why", sessionKey="main", messageId=messages[3]["__openclaw"]["id"])
        last = await here.call("chat.why", sessionKey="main")
        less = await reader.call("chat.why", {"sessionKey": "main", "item": first["item"]})
        missing = await here.refused("chat.why", sessionKey="main", messageId="nope")
    assert first["item"] == messages[0]["item"] != last["item"] == messages[4]["item"]
    assert first["model"]["used"] == ["fake/m"] and first["thinking"] == {
        "level": "off",
        "reason": first["thinking"]["reason"],
        "asked": "off",
        "fast": False,
        "asOf": "run",
    }
    assert first["thinking"]["reason"]
    assert [tool["name"] for tool in first["tools"]["called"]] == ["memory_search"]
    assert "read" in first["tools"]["offered"]
    (hidden,) = (one for one in first["tools"]["hidden"] if one["id"] == "exec")
    assert hidden["key"] == "tools.deny" and "source" in hidden
    assert all("source" not in one for one in less["tools"]["hidden"])
    assert first["memories"][0]["path"] == "MEMORY.md" and last["memories"] == []
    assert first["cost"]["calls"] == 2 and last["cost"]["calls"] == 1
    assert last["cache"]["share"] == 0.8 and last["cache"]["verdict"]
    sections = first["prompt"]["sections"]
    assert sum(s["bytes"] for s in sections) > 500 and {True, False} >= {s["stable"] for s in sections}
    assert set(first["time"]) >= {"queued", "model", "tools", "running", "total"}
    assert missing.message == "nothing is on file about this message"


async def test_a_run_is_followed_step_by_step(tmp_path: Path) -> None:
    model = ScriptedModel([call_tools(("ls", {"path": "."})), said("Done.")])
    async with place(tmp_path / "h", model) as here:
        await here.say("look", "k1")
        found = await here.call("runs.trace", item="k1")
        same = await here.call("runs.trace", item=found["item"])
        assert (await here.refused("runs.trace", item="zzz")).message == "no message zzz"
    kinds = [line["kind"] for line in found["timeline"]]
    assert kinds.count("model") == 2 and "tool" in kinds and "result" in kinds
    assert kinds[0] == "accepted" and "settled" in kinds
    (tool,) = found["tools"]
    assert (tool["name"], tool["args"], tool["isError"]) == ("ls", {"path": "."}, False)
    assert found["sessionKey"] == KEY and found["outcome"] == "answered" and same == found


async def test_what_differs_in_two_prompts_is_the_owners(tmp_path: Path) -> None:
    """MEMORY.md stands in them, and a word of it that changed stood in `runs.diff`."""
    model = ScriptedModel([said("one"), said("two")])
    async with place(tmp_path / "h", model, record={"enabled": True}) as here, here.other(scopes=(READ,)) as reader:
        notes = Path(here.app.settings.agents["main"].workspace) / "MEMORY.md"
        for run, text in (("k1", "The safe opens with 1111."), ("k2", "The safe opens with 2222.")):
            notes.write_text(text)
            await here.say("hello", run)
        tapes = here.app.tapes
        assert tapes is not None
        await until(lambda: tapes.describe()["count"] == 2)  # written once the reply has gone
        a, b = (await here.call("record.status"))["tapes"]
        told = await here.call("runs.diff", a=a, b=b)
        seen = await reader.call("runs.diff", {"a": a, "b": b})
    assert "2222" in str(told["differences"]) and "2222" not in str(seen)
    assert [one["why"] for one in seen["differences"]] == [one["why"] for one in told["differences"]] != []
