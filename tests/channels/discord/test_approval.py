"""An approval by button: of the owner it counts, of a stranger it does nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

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
