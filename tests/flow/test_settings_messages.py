"""Settings of messages, channels and keys, through the App: what people read, and how often a model is asked."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from flow.test_app import running, settings, until
from flow.test_directives import tell
from flow.test_message import asked, results
from palinurus.app import App
from palinurus.clock import SystemClock
from palinurus.core.types.channel import ChannelAbilities, LookName, ReactAction
from palinurus.core.types.inbound import Sender
from palinurus.core.types.keys import SessionKey
from palinurus.core.types.model import ModelFailure
from palinurus.inbox.commands.command import CommandCall
from palinurus.inbox.commands.table import TABLE
from palinurus.providers.catalog import Catalog
from palinurus.sessions.record import SessionRecord
from palinurus.store.port import RunClaim
from palinurus.testing.channel import FakeChannel
from palinurus.testing.model import ScriptedModel, StreamGate, call_tools, hold_at, say
from support import inbound

ABLE = ChannelAbilities(
    acts=frozenset(("react", "read", "pin", "poll", "thread", "edit", "delete", *get_args(LookName))), limit=4000
)


async def answers(home: Path, config: dict[str, Any], *texts: str) -> list[str]:
    model, channel = ScriptedModel([say(f"answer {n}") for n in range(len(texts))]), FakeChannel()
    async with running(home, model, channel, **config) as app:
        for number, text in enumerate(texts):
            await app.wait((await app.submit(asked(text, str(number)))).id)
        await until(lambda: len(channel.texts) == len(texts))
    return channel.texts


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"messages": {"responsePrefix": "🦞"}}, "🦞 answer 0"),
        ({"messages": {"responsePrefix": "auto"}}, "[Samantha] answer 0"),
        ({"messages": {"responsePrefix": "[{provider}|{MODEL}|{modelFull}]"}}, "[fake|m|fake/m] answer 0"),
        ({"messages": {"responsePrefix": "[{think}|{nobody}]"}}, "[off|{nobody}] answer 0"),
        ({"channels": {"fake": {"responsePrefix": "{identity.name}:"}}}, "Samantha: answer 0"),
        ({"messages": {"responsePrefix": "x"}, "channels": {"fake": {"responsePrefix": ""}}}, "answer 0"),
    ],
)  # fmt: skip
async def test_answers_begin_with_the_prefix(tmp_path: Path, config: dict[str, Any], said: str) -> None:
    agents = {"defaults": {"model": "fake/m"}, "list": [{"id": "main", "identity": {"name": "Samantha"}}]}
    assert await answers(tmp_path / "h", {**config, "agents": agents}, "hi") == [said]


async def test_words_of_the_owners_own_begin_a_new_session(tmp_path: Path) -> None:
    model = ScriptedModel([say("one"), say("two"), say("three")])
    triggers = {"resetTriggers": ["Start over", "neu"]}
    async with running(tmp_path / "h", model, FakeChannel(), session=triggers) as app:
        await tell(app, "first")
        assert (await tell(app, "start  OVER")).startswith("✅ New session")
        await tell(app, "neuer Tag")  # no trigger: a word that only begins like one
        await tell(app, "neu and this")
        await until(lambda: len(model.requests) == 3)
    said = [[m.text for m in request.messages] for request in model.requests]
    assert said == [["first"], ["neuer Tag"], ["and this"]]


@pytest.mark.parametrize(
    ("word", "action", "arguments"),
    [
        ("reactions", "react", {"emoji": "👍", "messageId": "1"}),
        ("pins", "unpin", {"messageId": "1"}),
        ("polls", "poll", {"pollQuestion": "?", "pollOptions": ["a", "b"]}),
        ("threads", "thread-create", {"threadName": "t"}),
        ("messages", "read", {}),
        ("messages", "edit", {"messageId": "1", "message": "x"}),
        ("sendMessage", "send", {"message": "x"}),
        ("channelInfo", "channel-info", {}),
        ("memberInfo", "member-info", {"userId": "5"}),
        ("roleInfo", "role-info", {}),
        ("voiceStatus", "voice-status", {"userId": "5"}),
        ("events", "event-list", {}),
        ("emojiList", "emoji-list", {}),
        ("search", "search", {"query": "x"}),
    ],
)
async def test_actions_of_a_channel_that_are_switched_off_are_not_done(
    tmp_path: Path, word: str, action: str, arguments: dict[str, Any]
) -> None:
    for on in (True, False):
        model = ScriptedModel([call_tools(("message", {"action": action, **arguments})), say("done")])
        channel = FakeChannel(abilities=ABLE)
        config = {"channels": {"fake": {"actions": {word: on, "permissions": False}}}}
        async with running(tmp_path / f"h{on}", model, channel, **config) as app:
            await app.wait((await app.submit(asked())).id)
        (told,) = results(model)
        assert (f"channels.fake.actions.{word}" in told) is not on
        assert bool(channel.acts) is (on and action != "send")


@pytest.mark.parametrize(
    ("kind", "auth", "asked_for"),
    [
        ("overloaded", {}, 2),
        ("overloaded", {"overloadedProfileRotations": 3, "overloadedBackoffMs": 1}, 4),
        ("rate_limit", {"rateLimitedProfileRotations": 0}, 1),
        ("rate_limit", {"rateLimitedProfileRotations": 2}, 3),
    ],
)
async def test_other_keys_are_tried_as_often_as_cooldowns_say(
    tmp_path: Path, kind: str, auth: dict[str, Any], asked_for: int
) -> None:
    spent = ModelFailure(kind, "no", rotate=True)  # type: ignore[arg-type]
    model = ScriptedModel([spent] * 9)
    async with running(tmp_path / "h", model, FakeChannel(), auth={"cooldowns": auth}) as app:
        await tell(app, "hi")
    assert len(model.requests) == asked_for


@pytest.mark.parametrize(
    ("retries", "tries"),
    [({}, 9), ({"base": 1, "perProfile": 0, "min": 1}, 1), ({"base": 1, "perProfile": 2, "min": 1}, 5),
     ({"max": 3}, 3), ({"base": 1, "perProfile": 1, "min": 4}, 4)],
)  # fmt: skip
async def test_a_model_is_asked_as_often_as_run_retries_say(
    tmp_path: Path, retries: dict[str, int], tries: int
) -> None:
    profiles = {f"fake:{n}": {"provider": "fake", "key": f"k{n}"} for n in range(2)}
    model = ScriptedModel([ModelFailure("auth", "no", rotate=True)] * 12)
    agents = {"defaults": {"model": "fake/m", "runRetries": retries}}
    async with running(tmp_path / "h", model, FakeChannel(), agents=agents, auth={"profiles": profiles}) as app:
        await tell(app, "hi")
    assert len(model.requests) == tries


async def test_a_message_is_tried_as_often_as_its_channel_says(tmp_path: Path) -> None:
    for attempts in (1, 3):
        model, channel = ScriptedModel([say("hello")]), FakeChannel()
        channel.faults = ["down"] * 9
        retry = {"attempts": attempts, "minDelayMs": 1, "maxDelayMs": 2, "jitter": 0}
        async with running(tmp_path / f"h{attempts}", model, channel, channels={"fake": {"retry": retry}}) as app:
            item = (await app.submit(asked())).id
            await app.wait(item)
            for _ in range(600):
                row = await app.store.reply(f"{item}.0")
                if row is not None and row.state == "failed":
                    break
                await asyncio.sleep(0.05)
        assert row is not None and row.state == "failed" and len(channel.sends) == attempts


async def test_config_is_changed_from_chats_only_where_the_config_lets_it(tmp_path: Path) -> None:
    async def typed(home: Path, **config: Any) -> list[str]:
        async with running(home, ScriptedModel([]), FakeChannel(), **config) as app:
            return [
                await tell(app, text, event=text) for text in ("/config set session.mainKey x", "/config get session")
            ]

    said = await typed(tmp_path / "a")
    assert said[0].startswith("session.mainKey = ")
    said = await typed(tmp_path / "b", channels={"fake": {"configWrites": False}})
    assert "channels.fake.configWrites" in said[0] and "is not set" in said[1]
    said = await typed(tmp_path / "c", commands={"config": False})
    assert all("commands.config" in one for one in said)


async def test_the_agent_restarts_the_gateway_only_where_the_config_lets_it(tmp_path: Path) -> None:
    for allowed in (True, False):
        model, asked_for = ScriptedModel([call_tools(("gateway", {"action": "restart"})), say("done")]), list[float]()
        told = settings(tmp_path / f"h{allowed}", commands={"restart": allowed})
        app = App(told, {}, SystemClock(), model=model)
        app.restart = asked_for.append
        await app.start()
        await tell(app, "restart yourself")
        await app.stop()
        assert ("commands.restart" in results(model)[0]) is not allowed and len(asked_for) == allowed


async def test_a_reaction_is_there_as_long_as_the_answer_is_made(tmp_path: Path) -> None:
    gate, channel = StreamGate(), FakeChannel(abilities=ABLE)
    model = ScriptedModel([hold_at(say("done"), gate)])
    config = {"channels": {"fake": {"typingReaction": ":hourglass:"}}, "messages": {"ackReactionScope": "off"}}
    async with running(tmp_path / "h", model, channel, **config) as app:
        item = (await app.submit(asked(event="7"))).id
        await until(lambda: bool(channel.acts))
        assert [act for _, act in channel.acts] == [ReactAction("7", "hourglass")]
        gate.open()
        await app.wait(item)
        await until(lambda: len(channel.acts) == 2)
    assert channel.acts[-1][1] == ReactAction("7", "hourglass", remove=True)


def test_how_large_files_may_be_and_whose_prices_count(tmp_path: Path) -> None:
    agents = {"defaults": {"model": "anthropic/claude-opus-4-6", "mediaMaxMb": 3}}
    for on in (True, False):
        channels = {"irc": {"host": "h"}, "signal": {"mediaMaxMb": 7}}
        told = settings(tmp_path / f"h{on}", agents=agents, channels=channels, models={"pricing": {"enabled": on}})
        assert [told.accounts[name]["default"].media >> 20 for name in channels] == [3, 7]
        model = Catalog(told, {}).default(told.agents["main"])
        assert str(model.ref) == "anthropic/claude-opus-4-6" and (model.price is not None) is on


@pytest.mark.parametrize(
    ("commands", "typed", "said"),
    [
        ({}, "/bash echo hi", "switched off (commands.bash)"),
        ({"bash": True}, "/bash echo hi-$((2+3))", "hi-5"),
        ({"bash": True, "bashForegroundMs": 50}, "/bash sleep 30", "background"),
        ({}, "/mcp show", "switched off (commands.mcp)"),
        ({"mcp": True}, "/mcp set files {command: 'npx'}", "mcp.servers.files = "),
        ({"mcp": True}, "/mcp show", "mcp.servers is not set"),
        ({"mcp": True}, "/mcp set", "Use /mcp"),
        ({"mcp": True, "config": False}, "/mcp show", "commands.config"),
        ({}, "/plugins show", "switched off (commands.plugins)"),
        ({"plugins": True}, "/plugins enable llm-task", "plugins.entries.llm-task.enabled = true"),
        ({"plugins": True}, "/plugins disable llm-task", "plugins.entries.llm-task.enabled = false"),
        ({"plugins": True}, "/plugins set llm-task {}", "Use /plugins"),
    ],
)
async def test_owners_commands_are_there_where_the_config_has_them(
    tmp_path: Path, commands: dict[str, Any], typed: str, said: str
) -> None:
    channel = FakeChannel()
    async with running(tmp_path / "h", ScriptedModel([]), channel, commands=commands) as app:
        assert said in await tell(app, typed)
        guest = inbound(typed, event="guest", sender=Sender("guest", allowed=True))
        assert "for the owner only" in (await app.wait((await app.submit(guest)).id)).note


async def test_a_bash_command_is_not_begun_again_after_a_crash(tmp_path: Path) -> None:
    async with running(tmp_path / "h", ScriptedModel([]), FakeChannel(), commands={"bash": True}) as app:
        row = TABLE["bash"].run
        assert row is not None
        claim = RunClaim("i", "control:agent:main:main", "control", b"", at=0, attempts=2)
        key, home = SessionKey("main", "main"), tmp_path / "h"
        record = SessionRecord.fresh(key, 0, "s")
        call = CommandCall(app.program, claim, asked("/bash"), key, record=record, stored=False, name="bash")
        answer = await row(msgspec.structs.replace(call, args=f"touch {home}/workspace/again"))
    assert "not begun again" in answer.text and not (home / "workspace" / "again").exists()


@pytest.mark.parametrize(
    ("most", "said"),
    [
        (0, ["one\n```py\ntwo\nthree\nfour\n```\nfive"]),
        (3, ["one\n```py\ntwo\n```", "```py\nthree\nfour\n```", "five"]),
        (5, ["one\n```py\ntwo\nthree\nfour\n```", "five"]),
    ],
)
async def test_a_message_has_no_more_lines_than_the_config_says(tmp_path: Path, most: int, said: list[str]) -> None:
    model, channel = ScriptedModel([say("one\n```py\ntwo\nthree\nfour\n```\nfive")]), FakeChannel()
    config = {"channels": {"fake": {"maxLinesPerMessage": most}}}
    async with running(tmp_path / "h", model, channel, **config) as app:
        await app.wait((await app.submit(asked())).id)
        await until(lambda: len(channel.texts) == len(said))
    assert channel.texts == said
