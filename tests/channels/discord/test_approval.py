"""An approval by button: of the owner it counts, of a stranger it does nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from channels.discord.scene import running
from channels.scene import texts, until
from palinurus.core.types.inbound import Target
from palinurus.core.types.outbound import Button, Reply
from palinurus.testing.discord.server import FakeDiscord
from palinurus.testing.model import ScriptedModel, call_tools, say


@pytest.fixture
async def discord() -> AsyncIterator[FakeDiscord]:
    async with FakeDiscord() as made:
        yield made


ASKING = {"exec": {"security": "allowlist", "ask": "always", "host": "gateway"}}


async def card(discord: FakeDiscord, chat: str) -> str:
    """The message with the buttons."""
    await until(lambda: any(one.buttons for one in discord.visible_messages(chat)))
    return next(one.message_id for one in discord.visible_messages(chat) if one.buttons)


@pytest.mark.parametrize("chat", ["", "group"])
async def test_the_owner_presses(discord: FakeDiscord, tmp_path: Path, chat: str) -> None:
    owner = discord.world.person("human")["id"]
    model = ScriptedModel([call_tools(("exec", {"command": "touch made/X"})), say("done")])
    commands = {"ownerAllowFrom": [f"discord:{owner}"]}
    async with running(tmp_path / "h", discord, model, commands=commands, tools=ASKING) as app:
        made = Path(app.settings.agents["main"].workspace) / "made" / "X"
        made.parent.mkdir()  # a command of a group's turn makes no files beside the owner's own
        await discord.say("make X", chat=chat, mention=bool(chat))
        ident = await card(discord, chat)
        await discord.press(ident, "Allow once", chat=chat, sender="stranger")
        await discord.press(ident, "Allow once", chat=chat, sender="friend")
        await until(lambda: len(discord.world.answers) == 2)
        assert {answer["type"] for _, answer in discord.world.answers} == {6}  # nothing is shown
        assert len(await app.approvals.pending()) == 1 and not made.exists()
        await discord.press(ident, "Allow once", chat=chat)
        await until(lambda: "done" in texts(discord, chat))
        assert made.exists() and await app.approvals.pending() == []


async def test_a_button_that_is_too_old_says_so(discord: FakeDiscord, tmp_path: Path) -> None:
    async with running(tmp_path / "h", discord, ScriptedModel([])) as app:
        target = Target("discord", discord.world.chat("")["id"])
        sent = await app.channels["discord"].send(Reply(target, "?", "c", buttons=(Button("Go", "x" * 200),)))
        (row,) = discord.world.message(target.to, sent.message_id)["components"]
        row["components"][0]["custom_id"] = "0#" + "f" * 32
        await discord.press(sent.message_id, "Go")
        await until(lambda: discord.world.answers)
    ((_, answer),) = discord.world.answers
    assert answer["data"] == {"content": "This button is too old.", "flags": 64, "allowed_mentions": {"parse": []}}


@pytest.mark.parametrize(
    ("rules", "word", "counts"),
    [
        ({}, "Allow once", False),
        ({"approvers": True}, "Allow once", True),
        ({"approvers": True}, "/always", False),
        ({"approvers": True, "agentFilter": ["other"]}, "", False),
        ({"approvers": True, "sessionFilter": ["telegram:"]}, "", False),
        ({"approvers": True, "sessionFilter": ["discord:"], "agentFilter": ["main"]}, "Allow once", True),
        ({"approvers": True, "enabled": False}, "", False),
    ],
)
async def test_who_else_may_answer_which_questions(
    discord: FakeDiscord, tmp_path: Path, rules: dict[str, Any], word: str, counts: bool
) -> None:
    owner, friend = (discord.world.person(name)["id"] for name in ("human", "friend"))
    model = ScriptedModel([call_tools(("exec", {"command": "echo X"})), say("done")])
    section = {"execApprovals": {**rules, **({"approvers": [friend]} if rules.get("approvers") else {})}}
    commands = {"ownerAllowFrom": [f"discord:{owner}"]}
    async with running(tmp_path / "h", discord, model, section, commands=commands, tools=ASKING) as app:
        await discord.say("make X", chat="group", mention=True)
        async with asyncio.timeout(60):
            while not await app.approvals.pending():
                await asyncio.sleep(0.01)
        if word == "/always":  # not theirs to say
            (row,) = await app.approvals.pending()
            await discord.say(f"/approve {row.id} allow-always", chat="group", sender="friend", mention=True)
            await until(lambda: any("owner only" in text for text in texts(discord, "group")))
        elif word:
            await discord.press(await card(discord, "group"), word, chat="group", sender="friend")
            await until(lambda: discord.world.answers)
        if counts:
            await until(lambda: "done" in texts(discord, "group"))
        assert bool(await app.approvals.pending()) is not counts
        assert any(one.buttons for one in discord.visible_messages("group")) is (bool(word) and not counts)


async def test_an_answered_question_is_removed_where_the_config_says_so(discord: FakeDiscord, tmp_path: Path) -> None:
    owner = discord.world.person("human")["id"]
    model = ScriptedModel([call_tools(("exec", {"command": "echo X"})), say("done")])
    section = {"execApprovals": {"cleanupAfterResolve": True}}
    commands = {"ownerAllowFrom": [f"discord:{owner}"]}
    async with running(tmp_path / "h", discord, model, section, commands=commands, tools=ASKING):
        await discord.say("make X")
        ident = await card(discord, "")
        await discord.press(ident, "Allow once")
        await until(
            lambda: "done" in texts(discord) and ident not in [m.message_id for m in discord.visible_messages()]
        )
