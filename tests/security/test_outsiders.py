"""People who are not the owner: answers, but no commands, no changed files, nothing of the owner's workspace."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from flow.test_app import CONFIG, running
from palinurus.app import App
from palinurus.core.policy.audience import OUTSIDER_DENY
from palinurus.core.types.inbound import Inbound, Sender, Target
from palinurus.core.types.messages import ToolResult, UserMessage
from palinurus.core.types.model import ModelRequest
from palinurus.testing.channel import FakeChannel
from palinurus.testing.model import ScriptedModel, ScriptedTurn, call_tools, say

OWNER, MEMBER, STRANGER = "1", "2", "666"
RULES: dict[str, Any] = {
    "channels": {
        "fake": {"dmPolicy": "open", "allowFrom": ["*", MEMBER, "3"], "groups": {"*": {}}, "groupPolicy": "open"}
    },
    "commands": {"ownerAllowFrom": [f"fake:{OWNER}"]},
}
SECRET = "the plan is in the blue folder"
CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("exec", {"command": "cat plan.txt; touch from-exec"}),
    ("process", {"action": "list"}),
    ("write", {"path": "from-write", "content": "x"}),
    ("edit", {"path": "plan.txt", "oldText": "blue", "newText": "red"}),
    ("read", {"path": "plan.txt"}),
    ("read", {"path": "../workspace/plan.txt"}),
    ("grep", {"pattern": "blue"}),
    ("ls", {"path": "."}),
    ("memory_search", {"query": "plan"}),
)
GROUP: dict[str, Any] = {"kind": "group", "target": Target("fake", "-100"), "mentioned": True}


class Trying(ScriptedModel):
    """Tries all of it in every turn, then sends a file."""

    def __init__(self, *calls: tuple[str, dict[str, Any]], media: str = "") -> None:
        self.calls, self.media = calls or CALLS, media
        super().__init__([self._play], repeat=True)

    def _play(self, request: ModelRequest) -> ScriptedTurn:
        done = isinstance(request.messages[-1], ToolResult)
        return say(f"Done.\nMEDIA:{self.media}" if self.media else "Done.") if done else call_tools(*self.calls)

    @property
    def offered(self) -> set[str]:
        return {tool.name for tool in self.requests[-1].tools}

    @property
    def results(self) -> str:
        return str([message.text for message in self.requests[-1].messages[-len(self.calls) :]])


def says(who: str, **changes: Any) -> Inbound:
    fields: dict[str, Any] = {"target": Target("fake", who), "sender": Sender(who), "event": "", "text": "hi", "at": 0}
    return Inbound(**{**fields, **changes})


@asynccontextmanager
async def site(home: Path, model: ScriptedModel, channel: FakeChannel, **more: Any) -> AsyncIterator[App]:
    (home / "workspace").mkdir(parents=True)
    (home / "workspace" / "plan.txt").write_text(SECRET)
    defaults = {**CONFIG["agents"]["defaults"], "heartbeat": {"every": "0m"}}
    async with running(home, model, channel, **{**RULES, "agents": {"defaults": defaults}, **more}) as app:
        yield app


OTHERS = {
    "a stranger": says(STRANGER),
    "somebody on the list": says(MEMBER, sender=Sender(MEMBER, allowed=True)),
    "a member of a group": says(MEMBER, sender=Sender(MEMBER, allowed=True), **GROUP),
    "a stranger who names the owner's session": says(STRANGER, session="agent:main:main"),
}


@pytest.mark.parametrize("name", OTHERS)
async def test_others_do_not_use_the_machine(tmp_path: Path, name: str) -> None:
    home = tmp_path / "h"
    model, channel = Trying(media=f"{home}/workspace/plan.txt"), FakeChannel()
    async with site(home, model, channel) as app:
        row = await app.wait((await app.submit(OTHERS[name])).id)
        assert row.outcome == "answered"
        assert not model.offered & {*OUTSIDER_DENY, "memory_search", "memory_get"} and "read" in model.offered
        assert SECRET not in str(model.requests)
        assert not [reply for reply in channel.sends if reply.media]
    assert sorted(path.name for path in (home / "workspace").glob("from-*")) == []
    assert (home / "workspace" / "plan.txt").read_text() == SECRET


async def test_each_has_a_folder_and_a_home_of_their_own(tmp_path: Path) -> None:
    """Where the owner opens single tools for a chat, they work there, in that chat's own folder."""
    home = tmp_path / "h"
    rules = {"direct": {"*": {"tools": {"alsoAllow": ["exec", "write"], "deny": ["gateway"]}}}}
    model, channel = (
        Trying(("exec", {"command": "pwd; echo $HOME; cat plan.txt; ls; echo x > kept.$((1+1))"})),
        FakeChannel(),
    )
    channels = {"fake": {**RULES["channels"]["fake"], **rules}}
    async with site(home, model, channel, channels=channels, tools={"taint": {"enabled": False}}) as app:
        seen = []
        for who in (STRANGER, MEMBER, STRANGER):
            await app.wait((await channel.receive("hi", event=f"{who}{len(seen)}", sender=who, to=who))[0])
            assert {"exec", "write"} <= model.offered and "edit" not in model.offered
            seen.append(model.results)
            assert SECRET not in model.results and str(home / "workspace") not in model.results
        assert "kept.2" not in seen[0] + seen[1] and "kept.2" in seen[2]
        await app.wait((await channel.receive("hi", event="o", sender=OWNER, to=OWNER))[0])
        assert SECRET in model.results


async def test_a_word_in_the_config_opens_it(tmp_path: Path) -> None:
    model, channel = Trying(("exec", {"command": "cat plan.txt"})), FakeChannel()
    trust = {"trustFrom": [f"fake:{MEMBER}", "fake:group:-100"], "taint": {"enabled": False}}
    async with site(tmp_path / "h", model, channel, tools=trust) as app:
        for asked, open_ in ((says(MEMBER), True), (says(STRANGER), False), (says(STRANGER, **GROUP), True)):
            await app.wait((await app.submit(asked)).id)
            assert ({*OUTSIDER_DENY} - {"apply_patch"} <= model.offered) is open_, asked.sender
            assert (SECRET in model.results) is open_


async def test_what_an_outsiders_turn_starts_is_an_outsiders(tmp_path: Path) -> None:
    class Parent(Trying):
        def _play(self, request: ModelRequest) -> ScriptedTurn:
            last = request.messages[-1]
            if isinstance(last, UserMessage) and "please go" in last.text:
                files = [{"name": "a.txt", "content": "from the parent"}]
                return call_tools(("sessions_spawn", {"task": "look around", "attachments": files}))
            if "You are a sub-agent" in request.prompt.text:
                return super()._play(request)
            return say("NO_REPLY")

    home = tmp_path / "h"
    model, channel = Parent(*CALLS, ("find", {"pattern": "**/a.txt"})), FakeChannel()
    async with site(home, model, channel, tools={"taint": {"enabled": False}}) as app:
        await app.wait((await app.submit(says(STRANGER, text="please go"))).id)
        async with asyncio.timeout(60):
            while any(c.state != "told" for c in app.subagents.registry.every()) or app.dispatcher.busy:
                await asyncio.sleep(0.01)
        children = [r for r in model.requests if "You are a sub-agent" in r.prompt.text]
        assert len(children) == 2 and not {tool.name for tool in children[0].tools} & {*OUTSIDER_DENY}
        assert SECRET not in str(model.requests)
    assert not list((home / "workspace").rglob("a.txt"))  # files for the task lie where its tools work


async def test_messages_of_those_who_may_and_those_who_may_not_make_no_common_turn(tmp_path: Path) -> None:
    """Both are members of one group: the one whom the owner trusts does not lend the tools to the other."""
    model, channel = Trying(("exec", {"command": "sleep 0"})), FakeChannel()
    trust = {"trustFrom": [f"fake:{MEMBER}"], "taint": {"enabled": False}}
    async with site(tmp_path / "h", model, channel, tools=trust, messages={"queue": {"mode": "steer"}}) as app:
        ids = []
        for who in (MEMBER, "3", MEMBER, "3"):
            asked = says(who, sender=Sender(who, allowed=True), event=f"{who}{len(ids)}", **GROUP)
            await channel.receive("x", event=f"w{len(ids)}", sender="nobody", to="nobody")  # the channel is open
            assert channel._submit is not None
            ids.append(await channel._submit(msgspec.structs.replace(asked, text=f"word of {who}")))
        for ident in ids:
            await app.wait(ident)
        for request in model.requests:
            last = [m for m in request.messages if isinstance(m, UserMessage)][-1].text
            if "word of 3" in last:
                assert "exec" not in {tool.name for tool in request.tools}
