"""A long conversation stays cacheable, and what would spoil it is seen."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from core.prompt.kit import full
from palinurus.agent.compaction import flush
from palinurus.agent.promptcache import load_cache_snapshot as looked
from palinurus.app import App
from palinurus.clock import SystemClock
from palinurus.config.load import load_config
from palinurus.core.history import compaction
from palinurus.core.prompt.facts import HEARTBEAT_PROMPT
from palinurus.core.prompt.render import render_prompt
from palinurus.core.types.inbound import NO_OPTIONS, Sender, TurnOptions
from palinurus.core.types.messages import AssistantMessage, TextBlock, UserMessage
from palinurus.core.types.model import ModelRequest, Prompt
from palinurus.testing.model import (
    ScriptedModel,
    StreamGate,
    assert_prefix_stable,
    call_tools,
    find_prefix_breaks,
    hold_at,
    make_model_info,
    measure_cacheable_share,
    say,
)
from support import inbound

CONFIG = {
    "models": {"providers": {"fake": {"baseUrl": "http://127.0.0.1:9/v1", "apiKey": "k", "models": [{"id": "m"}]}}},
    "agents": {"defaults": {"model": {"primary": "fake/m"}}},
}
TURNS = 200


@asynccontextmanager
async def running(home: Path, model: ScriptedModel) -> AsyncIterator[App]:
    home.mkdir(exist_ok=True)
    (home / "palinurus.json").write_text(json.dumps(CONFIG))
    (home / "workspace").mkdir(exist_ok=True)
    (home / "workspace" / "a.txt").write_text("what the file says\n" * 5)
    app = App(load_config(str(home), {}).settings, {}, SystemClock(), model=model)
    await app.start()
    try:
        yield app
    finally:
        await app.stop()


class Talk:
    """What the model does: every third turn reads a file first, every twentieth is held open for steering."""

    def __init__(self) -> None:
        self.gates: dict[int, StreamGate] = {}

    def __call__(self, request: ModelRequest) -> Any:
        last = request.messages[-1]
        if not request.session:
            return say(
                "NO_REPLY" if request.tools else "## Goal\n- They spoke of a file that says one thing five times."
            )
        if not isinstance(last, UserMessage):
            return say("The file says it five times, as before.")
        word = last.text.split()[-1]
        if not word.isdigit():
            return say("HEARTBEAT_OK" if "HEARTBEAT" in last.text else "I see, that changes it.")
        number = int(word)
        if number in self.gates:
            return hold_at(call_tools(("read", {"path": "a.txt"})), self.gates[number], 0)
        return call_tools(("read", {"path": "a.txt"})) if number % 3 == 0 else say(f"Answer {number}, in a few words.")


async def converse(app: App, talk: Talk, first: int, last: int) -> None:
    for n in range(first, last):
        if n % 10 == 5:
            beat = await app.submit(inbound(HEARTBEAT_PROMPT, session="main"))
            await app.wait(beat.id)
        if n % 20 == 0:
            talk.gates[n] = StreamGate()
        accepted = await app.submit(inbound(f"message number {n}", session="main"))
        if n % 20 == 0:
            await talk.gates[n].wait_reached()
            await app.submit(inbound("oh, and one thing more", session="main"))
            talk.gates[n].open()
        await app.wait(accepted.id)


@pytest.mark.seed(216)
async def test_two_hundred_turns_with_tools_steering_heartbeats_and_a_compaction(tmp_path: Path) -> None:
    talk = Talk()
    model = ScriptedModel([talk], repeat=True)
    home = tmp_path / "h"
    async with asyncio.timeout(60):
        async with running(home, model) as app:
            await converse(app, talk, 1, 141)
            cut = len(model.requests)
            made = await app.submit(inbound("/compact", session="main", sender=Sender("me", owner=True)))
            assert (await app.wait(made.id)).note.startswith("🧹 Compacted: ")
            await converse(app, talk, 141, 151)
        async with running(home, model) as app:  # the same bytes after a restart
            await converse(app, talk, 151, TURNS + 1)
    beside = [r for r in model.requests if not r.session]  # the flush and the summary are no part of the conversation
    assert [r.prompt.stable for r in beside] == [flush.SYSTEM, compaction.SUMMARY_SYSTEM]
    requests = [r for r in model.requests if r.session]
    texts = [m.text for m in requests[cut - 1].messages if isinstance(m, UserMessage)]
    assert sum("one thing more" in t for t in texts) == 7 and sum(t == HEARTBEAT_PROMPT for t in texts) == 14
    assert len({r.prompt for r in requests}) == 1
    assert_prefix_stable(requests, breaks={cut})
    found = find_prefix_breaks(requests)[cut - 1]
    assert found is not None and found.cause == "compaction"
    assert measure_cacheable_share(requests, breaks={cut}) >= 0.95


@pytest.mark.seed(190)
async def test_the_watch_sees_a_model_switch_in_a_real_run(tmp_path: Path) -> None:
    model = ScriptedModel([say("one"), say("two"), say("three")])
    home = tmp_path / "h"
    async with running(home, model) as app:
        for options in (NO_OPTIONS, NO_OPTIONS, TurnOptions(model="builtin/demo")):
            await app.wait((await app.submit(inbound("hello there", session="main", options=options))).id)
    assert "model=builtin/demo" in model.requests[2].prompt.volatile  # made anew for every run
    look = looked(str(home / "cache"), model.requests[0].session)
    assert look is not None and look.requests == 3
    assert [f.what.cause for f in look.breaks] == ["model"]


# --- what would spoil it --------------------------------------------------------------------------------------------


def session(prompt: Callable[[int], Prompt], turns: int = 30) -> list[ModelRequest]:
    """A conversation whose prompt is made anew for every turn."""
    said: list[Any] = []
    made = []
    for n in range(turns):
        said += [UserMessage(f"message {n}")]
        made.append(ModelRequest(make_model_info(), prompt(n), tuple(said)))
        said += [AssistantMessage((TextBlock(f"answer {n}"),))]
    return made


def spoiled(prompt: Prompt, line: str) -> Prompt:
    return msgspec.structs.replace(prompt, stable=f"{prompt.stable}\n{line}", parts=())


def test_as_we_render_it_nothing_breaks() -> None:
    requests = session(lambda n: render_prompt(full()))
    assert_prefix_stable(requests)
    assert measure_cacheable_share(requests) >= 0.95


@pytest.mark.seed(211)
def test_a_clock_in_the_stable_part_is_caught() -> None:
    requests = session(lambda n: spoiled(render_prompt(full()), f"The time is 10:{n:02}."))
    with pytest.raises(
        AssertionError, match=r"request 1 breaks the cached prefix: prompt: .*byte \d+ of the stable part"
    ):
        assert_prefix_stable(requests)
    assert measure_cacheable_share(requests) < 0.95


@pytest.mark.seed(217)
def test_a_channel_name_in_the_stable_part_is_caught() -> None:
    channels = ("telegram", "discord")
    requests = session(lambda n: spoiled(render_prompt(full()), f"You are on {channels[n % 2]}."))
    with pytest.raises(AssertionError, match="telegram") as caught:
        assert_prefix_stable(requests)
    assert "discord" in str(caught.value)
    assert measure_cacheable_share(requests) < 0.95


def test_a_hop_between_channels_keeps_the_stable_part() -> None:
    channels = ("telegram", "discord")
    found = find_prefix_breaks(session(lambda n: render_prompt(full(channel=channels[n % 2]))))
    assert {f.group for f in found if f} == {"volatile"}


def test_a_declared_break_must_be_one() -> None:
    with pytest.raises(AssertionError, match="declared a break"):
        assert_prefix_stable(session(lambda n: render_prompt(full()), 3), breaks={1})
