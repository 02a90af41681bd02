"""Directives through the whole App: who they act for, how long, and what people then see."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from flow.test_app import running, until
from palinurus.app import App
from palinurus.core.types.inbound import Inbound, Sender
from palinurus.testing.channel import FakeChannel
from palinurus.testing.model import ScriptedModel, StreamGate, call_tools, hold_at, say
from support import inbound

OWNER = Sender("me", owner=True)


async def tell(app: App, text: str, **changes: Any) -> str:
    """Say something as the owner; what came back."""
    return (await app.wait((await app.submit(mine(text, **changes))).id)).note


def mine(text: str, **changes: Any) -> Inbound:
    return inbound(text, **{"sender": OWNER, **changes})


def shown(channel: FakeChannel, *kinds: str) -> list[str]:
    return [one.text for one in channel.seen if not kinds or one.kind in kinds]


LOOK = ("ls", {"path": "."})


@pytest.mark.seed(50, 51, 95, 98, 323)
async def test_inline_is_for_one_message_and_alone_for_the_session(tmp_path: Path) -> None:
    script = [call_tools(LOOK), say("one"), call_tools(LOOK), say("two"), call_tools(LOOK), say("three")]
    model, channel = ScriptedModel(script), FakeChannel()
    async with running(tmp_path / "h", model, channel) as app:
        await tell(app, "look /verbose on")
        await tell(app, "look again")
        assert await tell(app, "/verbose on") == "Verbose logging enabled."
        await tell(app, "look once more")
        await until(lambda: "three" in shown(channel))
    lines = [t for t in shown(channel) if t.startswith("📁")]
    assert len(lines) == 2
    assert shown(channel).index("one") == 1 and "two" in shown(channel)
    assert [m.text for m in model.requests[0].messages] == ["look"]


async def test_a_strangers_directives_are_plain_text(tmp_path: Path) -> None:
    model, channel = ScriptedModel([say("ok"), say("ok")]), FakeChannel()
    async with running(tmp_path / "h", model, channel) as app:
        for text in ("/think high", "hello /verbose on"):
            await app.wait((await app.submit(inbound(text))).id)
    assert [r.messages[-1].text for r in model.requests] == ["/think high", "hello /verbose on"]


@pytest.mark.seed(18)
async def test_a_level_typed_with_a_message_that_the_model_has_not_is_refused_with_its_options(tmp_path: Path) -> None:
    model, channel = ScriptedModel([say("ok")]), FakeChannel()
    async with running(tmp_path / "h", model, channel) as app:
        said = await tell(app, "look again /think xhigh")
        assert 'level "xhigh" is not supported for fake/m. Use one of: off, minimal, low, medium, high.' in said
        assert not model.requests
        assert await tell(app, "look again /think high") == "ok"
        await until(lambda: len(channel.seen) == 2)
    assert channel.texts == [f"⚠️ No answer: {said}", "ok"]


@pytest.mark.seed(102)
async def test_verbose_switched_in_the_middle_of_a_run_acts_on_the_tools_that_follow(tmp_path: Path) -> None:
    gate = StreamGate()
    model = ScriptedModel(
        [
            *(call_tools(LOOK), hold_at(call_tools(("find", {"pattern": "*.md"})), gate, 0), say("done")),
            *(call_tools(LOOK), say("silent")),
        ]
    )
    channel = FakeChannel()
    async with running(tmp_path / "h", model, channel) as app:
        run = await app.submit(mine("look around"))
        await gate.wait_reached()
        assert await tell(app, "/verbose on") == "Verbose logging enabled."
        gate.open()
        assert (await app.wait(run.id)).note == "done"
        assert await tell(app, "/verbose off") == "Verbose logging disabled."
        assert (await app.wait((await app.submit(mine("look again"))).id)).note == "silent"
        await until(lambda: "silent" in shown(channel))
    bubbles = shown(channel, "tool")
    assert len(bubbles) == 1 and "*.md" in bubbles[0]


@pytest.mark.seed(103, 106)
@pytest.mark.parametrize(("own", "raw"), [(None, False), ("raw", True), ("explain", False)])
async def test_the_detail_of_tool_lines_is_configured(tmp_path: Path, own: str | None, raw: bool) -> None:
    """The agent's own word goes before the default's."""
    entry = {"id": "main", "default": True, **({"toolProgressDetail": own} if own else {})}
    default = {"toolProgressDetail": "raw" if own == "explain" else "explain"}
    agents = {"defaults": {"model": "fake/m", "verboseDefault": "on", **default}, "list": [entry]}
    model, channel = ScriptedModel([call_tools(("exec", {"command": "echo hi"})), say("done")]), FakeChannel()
    async with running(tmp_path / "h", model, channel, agents=agents) as app:
        await tell(app, "go")
        await until(lambda: "done" in shown(channel))
    (line,) = shown(channel, "tool")
    assert line.endswith(", echo hi") is raw


@pytest.mark.seed(114, 115)
async def test_reasoning_alone_toggles_whether_thoughts_are_shown(tmp_path: Path) -> None:
    script = [say("one", "because"), say("two", "since"), say("three", "as")]
    model, channel = ScriptedModel(script), FakeChannel()
    async with running(tmp_path / "h", model, channel) as app:
        await tell(app, "a")
        assert "enabled" in await tell(app, "/reasoning on")
        await tell(app, "b")
        assert "disabled" in await tell(app, "/reasoning off")
        await tell(app, "c")
        await until(lambda: "three" in shown(channel))
    (thought,) = shown(channel, "reasoning")
    assert thought.startswith("Thinking") and "since" in thought
    assert shown(channel).index(thought) == shown(channel).index("two") - 1


@pytest.mark.seed(118)
@pytest.mark.parametrize(
    ("inline", "session", "own", "default", "shows"),
    [
        ("off", "on", "on", "on", False),
        ("on", "off", "off", "off", True),
        ("", "on", "off", "off", True),
        ("", "off", "on", "on", False),
        ("", "", "on", "off", True),
        ("", "", "off", "on", False),
        ("", "", "", "on", True),
        ("", "", "", "", False),
    ],
)
async def test_the_order_of_reasoning(
    tmp_path: Path, inline: str, session: str, own: str, default: str, shows: bool
) -> None:
    entry = {"id": "main", "default": True, **({"reasoningDefault": own} if own else {})}
    defaults = {"model": "fake/m", **({"reasoningDefault": default} if default else {})}
    model, channel = ScriptedModel([say("done", "because")]), FakeChannel()
    async with running(tmp_path / "h", model, channel, agents={"defaults": defaults, "list": [entry]}) as app:
        if session:
            await tell(app, f"/reasoning {session}")
        await tell(app, f"go /reasoning {inline}" if inline else "go")
        await until(lambda: "done" in shown(channel))
    assert bool(shown(channel, "reasoning")) is shows


@pytest.mark.seed(107)
async def test_every_word_that_trace_takes_does_what_it_says(tmp_path: Path) -> None:
    model, channel = ScriptedModel(["ok"], repeat=True), FakeChannel()
    async with running(tmp_path / "h", model, channel) as app:
        app.hooks.trace("agent:main:main", "active-memory", "2 notes recalled")
        for word, told in (("on", "enabled"), ("off", "disabled"), ("raw", "enabled")):
            assert await tell(app, f"/trace {word}") == f"Plugin trace {told}."
            assert ("2 notes recalled" in await tell(app, "/status")) is (told == "enabled")


@pytest.mark.seed(109, 111, 112)
async def test_trace_shows_the_lines_of_plugins_behind_the_answer_and_in_status(tmp_path: Path) -> None:
    model, channel = ScriptedModel([say("one"), say("two"), say("three")]), FakeChannel()
    async with running(tmp_path / "h", model, channel) as app:
        app.hooks.trace("agent:main:main", "active-memory", "2 notes recalled")
        await tell(app, "a")
        await tell(app, "b /trace on")
        await tell(app, "c")
        assert "2 notes recalled" not in await tell(app, "/status")
        await tell(app, "/trace on")
        assert "active-memory: 2 notes recalled" in await tell(app, "/status")
        await until(lambda: "three" in shown(channel))
    lines = [t for t in shown(channel) if t == "active-memory: 2 notes recalled"]
    assert len(lines) == 1
    assert shown(channel).index(lines[0]) == shown(channel).index("two") + 1


@pytest.mark.seed(372)
async def test_what_happens_after_the_loop_happens_in_this_order(tmp_path: Path) -> None:
    model, channel = ScriptedModel([say("hello")]), FakeChannel()
    order: list[str] = []
    async with running(tmp_path / "h", model, channel) as app:
        for point in ("agent_end", "message_sending", "message_sent"):
            app.hooks.on(point, lambda payload, point=point: order.append(point))
        await tell(app, "hi")
        await until(lambda: "message_sent" in order)
    assert order == ["agent_end", "message_sending", "message_sent"] and shown(channel) == ["hello"]


async def test_a_model_chosen_for_the_session_is_used_and_cleared(tmp_path: Path) -> None:
    providers = {"fake": {"baseUrl": "http://127.0.0.1:9/v1", "apiKey": "k", "models": [{"id": "m"}, {"id": "other"}]}}
    model, channel = ScriptedModel([say("one"), say("two"), say("three")]), FakeChannel()
    async with running(tmp_path / "h", model, channel, models={"providers": providers}) as app:
        await tell(app, "/model fake/other")
        await tell(app, "a")
        await tell(app, "b /model fake/m")
        await tell(app, "/model default")
        await tell(app, "c")
    assert [r.model.ref.model for r in model.requests] == ["other", "m", "m"]


async def test_new_begins_a_session_and_the_old_transcript_stays(tmp_path: Path) -> None:
    model, channel = ScriptedModel([say("one"), say("two")]), FakeChannel()
    async with running(tmp_path / "h", model, channel) as app:
        await tell(app, "first")
        assert "New session" in await tell(app, "/new")
        await tell(app, "second")
    assert [m.text for m in model.requests[1].messages] == ["second"]
    files = list((tmp_path / "h" / "agents" / "main" / "sessions").iterdir())
    assert len(files) == 2


async def test_a_setting_changed_during_a_run_is_not_undone_by_its_end(tmp_path: Path) -> None:
    gate = StreamGate()
    model, channel = ScriptedModel([hold_at(say("one"), gate, 0), say("two")]), FakeChannel()
    async with running(tmp_path / "h", model, channel) as app:
        run = await app.submit(mine("go"))
        await gate.wait_reached()
        await tell(app, "/queue collect")
        gate.open()
        await app.wait(run.id)
        await asyncio.sleep(0)
        assert "collect" in await tell(app, "/queue")


@pytest.mark.seed(318, 322)
@pytest.mark.parametrize(
    ("default", "channel_says", "blocks"), [("off", None, 1), ("on", None, 1), ("off", True, 3), ("on", False, 1)]
)
async def test_a_channel_that_is_not_telegram_must_ask_for_blocks(
    tmp_path: Path, default: str, channel_says: bool | None, blocks: int
) -> None:
    text = "\n\n".join(["A paragraph of several words that is not short. " * 20] * 3).strip()
    model, channel = ScriptedModel([say(text)], chunk=100), FakeChannel()
    agents = {"defaults": {"model": "fake/m", "blockStreamingDefault": default}}
    channels = {} if channel_says is None else {"fake": {"blockStreaming": channel_says}}
    async with running(tmp_path / "h", model, channel, agents=agents, channels=channels) as app:
        await tell(app, "write")
        await until(lambda: len(channel.seen) >= blocks)
    assert len(channel.seen) == blocks
    assert "".join("".join(shown(channel)).split()) == "".join(text.split())


async def test_exec_denied_for_a_session_is_not_offered_and_not_run(tmp_path: Path) -> None:
    model = ScriptedModel([call_tools(("exec", {"command": "touch ran"})), say("could not")])
    async with running(tmp_path / "h", model, FakeChannel()) as app:
        assert await tell(app, "/exec security=deny") == "Exec defaults set (security=deny)."
        await tell(app, "do it")
    assert "exec" not in {tool.name for tool in model.requests[0].tools}
    assert not (tmp_path / "h" / "workspace" / "ran").exists()
    assert "not found" in model.requests[1].messages[-1].text


@pytest.mark.parametrize("push", [True, False])
async def test_btw_is_asked_beside_the_conversation(tmp_path: Path, push: bool) -> None:
    model, channel = ScriptedModel([say("Tom."), say("Four legs."), say("Yes.")]), FakeChannel()
    async with running(tmp_path / "h", model, channel) as app:
        await tell(app, "my cat's name?")
        said = await tell(app, "/btw how many legs?", push=push)
        await until(lambda: len(model.requests) == 2)
        await tell(app, "sure?")
        await until(lambda: "Yes." in shown(channel))
    if push:
        assert shown(channel) == ["Tom.", "Four legs.", "Yes."]
    else:
        assert said == "Four legs."
    assert [m.text for m in model.requests[1].messages] == ["my cat's name?", "Tom.", "how many legs?"]
    assert [m.text for m in model.requests[2].messages] == ["my cat's name?", "Tom.", "sure?"]
