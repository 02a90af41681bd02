"""The connection: an address of its own for each client, files without our token, and nothing global changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from discord.errors import HTTPException
from discord.gateway import DiscordWebSocket
from discord.http import Route

from channels.discord.scene import running
from channels.scene import texts, until
from palinurus.channels.discord.wire import DiscordRest
from palinurus.testing.discord.server import FakeDiscord
from palinurus.testing.discord.state import TOKEN
from palinurus.testing.model import ScriptedModel, say


async def test_every_client_has_its_own_server(tmp_path: Path) -> None:
    async with FakeDiscord() as one, FakeDiscord() as two:
        async with (
            running(tmp_path / "1", one, ScriptedModel([say("one")])),
            running(tmp_path / "2", two, ScriptedModel([say("two")])),
        ):
            await one.say("hello")
            await two.say("hello")
            await until(lambda: (texts(one), texts(two)) == (["one"], ["two"]))
    assert Route.BASE == "https://discord.com/api/v10"
    assert str(DiscordWebSocket.DEFAULT_GATEWAY) == "wss://gateway.discord.gg/"


async def test_files_come_from_discord_only() -> None:
    async with FakeDiscord() as discord:
        rest = DiscordRest(TOKEN, f"{discord.base}/api/v10")
        try:
            for url in (
                "http://169.254.169.254/latest",
                "https://cdn.discordapp.com.evil.example/x",
                "file:///etc/passwd",
            ):
                with pytest.raises(ValueError, match="not an address of Discord's files"):
                    await anext(rest.chunks(url))
            with pytest.raises(HTTPException):
                await anext(rest.chunks(f"{discord.base}/attachments/1/none"))
        finally:
            await rest.close()


async def test_an_event_nobody_understands_breaks_nothing(tmp_path: Path, caplog: Any) -> None:
    async with FakeDiscord() as discord, running(tmp_path / "h", discord, ScriptedModel([say("here")])) as app:
        await discord.sessions.tell("MESSAGE_CREATE", {"mentions": []})
        await discord.sessions.tell("MESSAGE_CREATE", {"id": "1", "channel_id": "2", "mentions": []})
        await discord.sessions.tell("INTERACTION_CREATE", {"id": "3", "type": 9})
        await discord.sessions.tell("SOMETHING_NEW", {"x": 1})
        await discord.say("hello")
        await until(lambda: texts(discord) == ["here"])
        assert app.channels["discord"].status().state == "ready"
    assert "MESSAGE_CREATE cannot be read" in caplog.text and TOKEN not in caplog.text
