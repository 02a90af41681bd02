"""kill -9 between Discord and the disk while nobody remembers anything: all is answered, and every reply seen once."""

from __future__ import annotations

from pathlib import Path

import pytest

from channels.scene import Gateway, texts, until
from palinurus.testing.discord.server import FakeDiscord
from palinurus.testing.server import ModelServer


@pytest.mark.torture
@pytest.mark.parametrize("point", ["accept.before:1", "accept.after:1", "outbox.claimed:1", "outbox.sent:1"])
async def test_killed_on_the_way(tmp_path: Path, point: str) -> None:
    """No session can be resumed, no nonce is known any more."""
    async with FakeDiscord() as discord, ModelServer() as model:
        each = {"queue": {"mode": "followup"}}
        gateway = Gateway(tmp_path, model.url, discord, str(discord.world.person("")["id"]), messages=each)
        discord.world.forgetful = True
        with gateway.up(point) as process:
            await until(lambda: discord.sessions.identified and discord.sessions.all, 20)
            await discord.say("SAY Hello there.")
            await until(lambda: process.poll() is not None, 20)
            assert process.returncode == 137
        discord.sessions.forget()
        await discord.say("SAY And again.")
        with gateway.up():
            await until(lambda: len(texts(discord)) == 2 and gateway.delivered(), 20)
    assert texts(discord) == ["Hello there.", "And again."]
