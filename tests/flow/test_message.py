"""The message tool through the whole program: what people in several chats read."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from flow.test_app import running, until
from flow.test_schedules import beat, beating
from flow.test_webhooks import HOOKS, Site
from gateway.host import TOKEN
from palinurus.app import App
from palinurus.cli.look.preview import preview_run
from palinurus.core.policy.decide import explain_tool_verdict
from palinurus.core.types.channel import ChannelAbilities, ReactAction
from palinurus.core.types.inbound import Inbound, Sender, Target
from palinurus.core.types.messages import ToolResult
from palinurus.gateway.methods.cron import CronJobMaker
from palinurus.gateway.server import GatewayServer
from palinurus.testing.channel import FakeChannel
from palinurus.testing.model import ScriptedModel, call_tools, fail, say

ABLE = ChannelAbilities(acts=frozenset(("react", "read")), limit=4000)
OWNER = Sender("o", owner=True)
QUIET: dict[str, Any] = {"messages": {"visibleReplies": "message_tool"}}


def asked(text: str = "go", event: str = "1", sender: Sender = OWNER, **changes: Any) -> Inbound:
    return Inbound(
        **{"target": Target("fake", "chat"), "sender": sender, "event": event, "text": text, "at": 0, **changes}
    )


@asynccontextmanager
async def serving(app: App) -> AsyncIterator[Site]:
    server = GatewayServer(app, app.clock, TOKEN)
    await server.start("127.0.0.1", 0)
    try:
        async with aiohttp.ClientSession() as session:
            yield Site(app, server, session)
    finally:
        await server.stop()


def results(model: ScriptedModel) -> list[str]:
    return [m.text for m in model.requests[-1].messages if isinstance(m, ToolResult)]


def shown(channel: FakeChannel) -> list[tuple[str, str]]:
    return [(one.to, one.text) for one in channel.seen]


async def test_messages_to_another_chat_and_another_channel_and_the_answer_here(tmp_path: Path) -> None:
    one, two = FakeChannel(abilities=ABLE), FakeChannel("other")
    script = [
        call_tools(
            ("message", {"message": "hello there", "target": "fake:9"}),
            ("message", {"message": "hello over there", "target": "other:7"}),
            ("message", {"action": "react", "emoji": "👍"}),
        ),
        say("Told them both."),
    ]
    model = ScriptedModel(script)
    async with running(tmp_path / "h", model, one, two) as app:
        row = await app.wait((await app.submit(asked())).id)
        await until(lambda: len(one.seen) == 2 and len(two.seen) == 1)
        kinds = [step.what for step in await app.store.trace(row.id)]
    assert shown(one) == [("9", "hello there"), ("chat", "Told them both.")] and shown(two) == [
        ("7", "hello over there")
    ]
    assert [act for _, act in one.acts if isinstance(act, ReactAction) and act.emoji == "👍"] == [
        ReactAction("1", "👍")
    ]
    first = json.loads(results(model)[0])
    assert first == {"ok": True, "state": "sent", "channel": "fake", "to": "9", "messageId": "fake-1"}
    assert kinds.count("tool") == 3 and one.duplicate_ids == []


async def test_who_asks_from_another_channel_without_rights_is_refused(tmp_path: Path) -> None:
    one, two = FakeChannel(abilities=ABLE), FakeChannel("other")
    model = ScriptedModel([call_tools(("message", {"message": "psst", "target": "other:7"})), say("I may not.")])
    async with running(tmp_path / "h", model, one, two, tools={"taint": {"enabled": False}}) as app:
        await app.wait((await app.submit(asked(sender=Sender("m", allowed=True)))).id)
        await until(lambda: any(text == "I may not." for _, text in shown(one)))
    assert two.seen == [] and "allowAcrossProviders" in results(model)[0]


async def test_an_answer_that_was_sent_with_the_tool_is_not_said_again(tmp_path: Path) -> None:
    channel = FakeChannel(abilities=ABLE)
    sends = call_tools(("message", {"message": "It is done.\nAll of it."}))
    model = ScriptedModel([sends, say(" It is done. All of it. "), sends, say("It is done.")])
    async with running(tmp_path / "h", model, channel) as app:
        first = await app.wait((await app.submit(asked(event="1"))).id)
        await app.wait((await app.submit(asked(event="2"))).id)
        await until(lambda: len(channel.seen) == 3)
        await asyncio.sleep(0.05)
    assert [text for _, text in shown(channel)] == ["It is done.\nAll of it.", "It is done.\nAll of it.", "It is done."]
    assert first.outcome == "answered"


async def test_the_same_text_sent_elsewhere_is_still_the_answer_here(tmp_path: Path) -> None:
    channel = FakeChannel(abilities=ABLE)
    model = ScriptedModel(
        [call_tools(("message", {"message": "Dinner at eight.", "target": "fake:9"})), say("Dinner at eight.")]
    )
    async with running(tmp_path / "h", model, channel) as app:
        await app.wait((await app.submit(asked())).id)
        await until(lambda: len(channel.seen) == 2)
    assert shown(channel) == [("9", "Dinner at eight."), ("chat", "Dinner at eight.")]


async def test_where_only_the_tool_is_seen_the_models_text_is_not_posted(tmp_path: Path) -> None:
    channel = FakeChannel(abilities=ABLE)
    send = call_tools(("message", {"message": "For you."}), text="I write a note.")
    model = ScriptedModel([send, say("Thoughts nobody reads."), say("Nothing sent."), fail("auth", "no key")])
    async with running(tmp_path / "h", model, channel, **QUIET) as app:
        await app.wait((await app.submit(asked(event="1"))).id)
        silent = await app.wait((await app.submit(asked(event="2"))).id)
        await app.wait((await app.submit(asked(event="3"))).id)
        await until(lambda: len(channel.seen) == 2)
        await asyncio.sleep(0.05)
    assert [text for _, text in shown(channel)] == ["For you.", "⚠️ No answer: no key."]
    assert silent.outcome == "answered"
    prompt = model.requests[0].prompt
    assert "Your text is not posted in this chat" in prompt.stable + prompt.volatile
    assert len({request.prompt.stable for request in model.requests}) == 1


async def test_a_client_that_reads_its_answer_itself_gets_it_all_the_same(tmp_path: Path) -> None:
    model = ScriptedModel([say("Read me.")])
    async with running(tmp_path / "h", model, FakeChannel(), **QUIET) as app:
        row = await app.wait((await app.submit(asked(push=False, target=Target("webchat", "x")))).id)
    assert row.note == "Read me."
    prompt = model.requests[0].prompt
    assert "Your text is not posted" not in prompt.stable + prompt.volatile


async def test_the_tool_and_the_prompt_stay_the_same_from_start_to_start(tmp_path: Path) -> None:
    seen = []
    for names in (("fake", "other"), ("other", "fake")):
        model = ScriptedModel([say("ok")])
        async with running(tmp_path / "h", model, *(FakeChannel(name, abilities=ABLE) for name in names)) as app:
            await app.wait((await app.submit(asked(event=str(names)))).id)
        request = model.requests[0]
        seen.append((request.prompt.stable, [t for t in request.tools if t.name == "message"]))
    assert seen[0] == seen[1] and len(seen[0][1]) == 1
    assert "## Messaging" in request.prompt.stable + request.prompt.volatile


@pytest.mark.parametrize(
    ("tools", "has"),
    [
        ({"profile": "messaging"}, True),
        ({"profile": "full"}, True),
        ({"allow": ["group:messaging"]}, True),
        ({"profile": "coding"}, False),
    ],
)
async def test_without_a_channel_the_tool_is_there_and_says_so(
    tmp_path: Path, tools: dict[str, Any], has: bool
) -> None:
    model = ScriptedModel([call_tools(("message", {"target": "telegram:1", "message": "hi"})), say("ok")])
    async with running(tmp_path / "h", model, tools=tools) as app:
        await app.wait((await app.submit(asked(push=False))).id)
        seen = await preview_run(app.settings, {}, asked(push=False))
    request = model.requests[0]
    assert ("message" in {t.name for t in request.tools}) is has
    assert ("no channel is set up" in results(model)[0]) is has
    assert "`message`" not in request.prompt.stable + request.prompt.volatile  # no word of what cannot be done
    told = "\n".join(explain_tool_verdict("message", seen.verdict, lambda key: ""))
    assert "no channel is set up" in told and ("message is offered." in told) is has


@pytest.mark.parametrize(
    ("profile", "has"), [("full", True), ("messaging", True), ("coding", False), ("minimal", False)]
)
async def test_profiles(tmp_path: Path, profile: str, has: bool) -> None:
    model = ScriptedModel([say("ok")])
    async with running(tmp_path / "h", model, FakeChannel(), tools={"profile": profile}) as app:
        await app.wait((await app.submit(asked())).id)
    assert ("message" in {t.name for t in model.requests[0].tools}) == has


async def test_jobs_heartbeats_and_hooks_reach_the_accounts_of_configured_channels(tmp_path: Path) -> None:
    accounts = {"accounts": {"home": {}, "work": {}}, "dmPolicy": "open", "allowFrom": ["*"]}
    config = {**beating(target="last"), "channels": {"fake": accounts}}
    script = [say("hi"), say("The cellar is wet."), say("Tea!"), say("Tea there!"), say("A parcel.")]
    model, channel = ScriptedModel(script), FakeChannel()
    async with running(tmp_path / "h", model, channel, **config, hooks=HOOKS) as app, serving(app) as here:
        first = asked("hello", target=Target("fake", "chat", "work"))
        assert (await app.wait((await app.submit(first)).id)).note == "hi"
        assert (await beat(app))["status"] == "sent"
        for to in ({"channel": "last"}, {"channel": "fake", "to": "9", "accountId": "home"}):
            job = {"name": "tea", "schedule": {"kind": "every", "everyMs": 86_400_000}, "sessionTarget": "isolated"}
            job |= {"payload": {"kind": "agentTurn", "message": "Tea"}, "delivery": {"mode": "announce", **to}}
            made = await app.scheduler.add(job, CronJobMaker(agent="main"))
            before = len(channel.seen)
            await app.scheduler.run(made["id"])
            await until(lambda seen=before: len(channel.seen) > seen)
        assert (await here.post("agent", {"message": "A parcel came", "channel": "fake", "to": "7"}))[0] == 200
        await until(lambda: len(channel.seen) == 5)
    assert [(r.target.account, r.target.to, r.text) for r in channel.sends] == [
        ("work", "chat", "hi"),
        ("work", "chat", "The cellar is wet."),
        ("work", "chat", "Tea!"),
        ("home", "9", "Tea there!"),
        ("default", "7", "A parcel."),  # none was named: the channel takes its first
    ]


def unsettled(home: Path) -> None:
    """As if the program had been killed right before the turn's end was written down."""
    (file,) = (one for one in home.rglob("*.db"))
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("UPDATE inbox SET state = 'running', outcome = NULL, note = '', settled = 0")
        db.execute("DELETE FROM outbox WHERE id NOT LIKE '%.m-%'")


@pytest.mark.parametrize(
    ("sends", "says", "left"),
    [({"message": "It is done."}, "It is done.", []), ({"message": "Other words."}, "It is done.", ["It is done."])],
)
async def test_killed_before_the_end_was_written_down_what_the_tool_said_is_still_known(
    tmp_path: Path, sends: dict[str, Any], says: str, left: list[str]
) -> None:
    model, channel = ScriptedModel([call_tools(("message", sends)), say(says)]), FakeChannel()
    async with running(tmp_path / "h", model, channel) as app:
        ident = (await app.submit(asked())).id
        await app.wait(ident)
        await until(lambda: len(channel.seen) == 1 + len(left))
    unsettled(tmp_path / "h")
    again, silent = FakeChannel(), ScriptedModel([])
    async with running(tmp_path / "h", silent, again) as app:
        assert (await app.wait(ident)).note == says
        await until(lambda: len(again.seen) == len(left))
        await asyncio.sleep(0.05)
    assert again.texts == left and silent.requests == []


async def test_killed_before_the_end_was_written_down_nothing_of_the_answer_is_lost(tmp_path: Path) -> None:
    model, channel = ScriptedModel([call_tools(("ls", {}), text="Let me look."), say("Here it is.")]), FakeChannel()
    async with running(tmp_path / "h", model, channel) as app:
        ident = (await app.submit(asked())).id
        await app.wait(ident)
        await until(lambda: bool(channel.seen))
    unsettled(tmp_path / "h")
    again = FakeChannel()
    async with running(tmp_path / "h", ScriptedModel([]), again) as app:
        await app.wait(ident)
        await until(lambda: bool(again.seen))
    assert channel.texts == again.texts == ["Let me look.\n\nHere it is."]
