"""A bad day of the connection: whatever breaks in whatever order, every message comes, in the order of its chat."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from channels.scene import until
from palinurus.channels.discord.channel import make_discord_channel
from palinurus.core.types.inbound import Inbound
from palinurus.errors import QueueFull
from palinurus.testing.discord.server import FakeDiscord
from palinurus.testing.discord.state import GROUP
from palinurus.testing.platform import FastClock, make_channel_kit

CHATS = ("", "group", "thread")


class Day:
    """People write in three chats; the connection and the program fail as chance wants it."""

    def __init__(self, discord: FakeDiscord, folder: Path, seed: int) -> None:
        self._discord = discord
        self._folder = str(folder)
        self._chance = random.Random(seed)
        self._thread = discord.world.thread(GROUP, "plans")["id"]
        self.said: dict[str, list[str]] = {chat: [] for chat in CHATS}
        self.heard: dict[str, None] = {}
        self.task: asyncio.Task[None] | None = None

    async def submit(self, inbound: Inbound) -> str:
        if self._chance.random() < 0.1:
            raise QueueFull("full")
        await asyncio.sleep(self._chance.random() * 0.002)
        self.heard[inbound.event] = None
        return inbound.event

    async def up(self) -> None:
        channel = make_discord_channel(make_channel_kit("discord", self._folder, self._discord.section, FastClock()))
        self.task = asyncio.ensure_future(channel.run(self.submit))
        await until(lambda: channel.status().state == "ready")

    async def down(self) -> None:
        assert self.task is not None
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    async def say(self) -> None:
        chat = self._chance.choice(CHATS)
        times = 2 if self._chance.random() < 0.1 else 1
        ident = await self._discord.say("x", chat=self._thread if chat == "thread" else chat, times=times)
        self.said[chat].append(ident)

    async def fail(self) -> None:
        kind = self._chance.choice(("cut", "forget", "reconnect", "hang up", "restart", "wait"))
        if kind in ("cut", "forget"):
            await self._discord.cut()
            if kind == "forget":
                self._discord.sessions.forget()
            await self.say()
            await self._discord.mend()
        elif kind == "reconnect":
            await self._discord.ask_to_reconnect()
        elif kind == "hang up":
            await self._discord.sessions.hang_up(self._chance.choice((1000, 4000, 4009)))
        elif kind == "restart":
            await self.down()
            self._discord.sessions.forget()
            await self.say()
            await self.up()
        else:
            await asyncio.sleep(0.03)

    async def run(self, steps: int) -> None:
        await self.up()
        self.said[""].append(await self._discord.say("first"))  # a direct chat is known from its first message on
        await until(lambda: self.heard)
        for _ in range(steps):
            await (self.say() if self._chance.random() < 0.8 else self.fail())
        everything = {ident for idents in self.said.values() for ident in idents}
        await until(lambda: everything <= set(self.heard), 20)
        await self.down()
        for idents in self.said.values():
            assert [ident for ident in self.heard if ident in set(idents)] == idents


async def test_a_bad_day(tmp_path: Path) -> None:
    async with FakeDiscord() as discord:
        await Day(discord, tmp_path, 7).run(60)


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(20))
async def test_many_bad_days(tmp_path: Path, seed: int) -> None:
    async with FakeDiscord() as discord:
        await Day(discord, tmp_path, seed).run(300)
