"""session.sendPolicy and /send: runs go on, but what they say stays here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from flow.test_delivery import from_owner, running, sent
from palinurus.core.types.inbound import Target
from palinurus.core.types.messages import ToolResult
from palinurus.testing.channel import FakeChannel
from palinurus.testing.model import ScriptedModel, call_tools, say


def rule(action: str, **match: str) -> dict[str, Any]:
    return {"action": action, "match": match}


GROUP = {"kind": "group", "target": Target("fake", "g1"), "mentioned": True}


@pytest.mark.parametrize(
    ("policy", "private", "group"),
    [
        ({}, True, True),
        ({"default": "deny"}, False, False),
        ({"default": "deny", "rules": [rule("allow", chatType="direct")]}, True, False),
        ({"rules": [rule("deny", channel="FAKE", chatType="group")]}, True, False),
        ({"rules": [rule("deny", channel="other")]}, True, True),
        ({"rules": [rule("allow", channel="fake"), rule("deny", keyPrefix="fake:group:")]}, True, False),
        ({"rules": [rule("deny", rawKeyPrefix="agent:main:fake:group:g1")]}, True, False),
        ({"rules": [rule("deny", keyPrefix="agent:main:")]}, True, True),
        ({"rules": [{"action": "deny"}]}, False, False),
    ],
)
async def test_the_policy_says_where_replies_go(
    tmp_path: Path, policy: dict[str, Any], private: bool, group: bool
) -> None:
    channel, model = FakeChannel(), ScriptedModel([say("Hello.")], repeat=True)
    async with running(tmp_path / "h", model, channel, session={"sendPolicy": policy}) as app:
        for event, allowed, where in (("e1", private, {}), ("e2", group, GROUP)):
            inbound = from_owner("hi", event)
            for name, value in where.items():
                inbound = msgspec.structs.replace(inbound, **{name: value})
            item = (await app.submit(inbound)).id
            row = await app.wait(item)
            assert (row.outcome, row.note) == ("answered", "Hello."), "the run goes on in any case"
            if allowed:
                await sent(app, item, 1)
            else:
                assert await app.store.list_due_replies("fake", 1 << 60) == []
        assert len(channel.seen) == private + group


async def test_the_owner_switches_sending_for_one_session(tmp_path: Path) -> None:
    channel, model = FakeChannel(), ScriptedModel([say("Hello.")], repeat=True)
    async with running(tmp_path / "h", model, channel, session={"sendPolicy": {"default": "deny"}}) as app:

        async def said(text: str, event: str) -> None:
            await app.wait((await app.submit(from_owner(text, event))).id)

        await said("hi", "e1")
        await said("/send on", "e2")
        await said("hi", "e3")
        await said("/send off", "e4")
        await said("hi", "e5")
        await said("/send inherit", "e6")
        await said("hi", "e7")
        item = (await app.submit(from_owner("/send", "e8"))).id
        await app.wait(item)
        await sent(app, item, 1)
        assert [reply.text for reply in channel.seen].count("Hello.") == 1


@pytest.mark.parametrize(("policy", "goes"), [({}, True), ({"rules": [rule("deny", channel="fake")]}, False)])
async def test_the_message_tool_is_under_the_policy_too(tmp_path: Path, policy: dict[str, Any], goes: bool) -> None:
    other = ("message", {"action": "send", "target": "other", "message": "psst"})
    model = ScriptedModel([call_tools(("message", {"action": "send", "message": "hello"}), other), say("done")])
    channel = FakeChannel()
    async with running(tmp_path / "h", model, channel, session={"sendPolicy": policy}) as app:
        await app.wait((await app.submit(from_owner("go", "e1"))).id)
        told = [m.text for m in model.requests[-1].messages if isinstance(m, ToolResult)]
    assert all(("session.sendPolicy keeps" in text) is not goes for text in told) and len(told) == 2
    assert bool(channel.seen) is goes
