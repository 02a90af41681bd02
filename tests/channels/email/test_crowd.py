"""Many mails at once: one person who has to wait holds nobody else up, order is kept, nothing is lost."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from channels.scene import until
from palinurus.channels.email import channel as module
from palinurus.core.types.inbound import Inbound
from palinurus.errors import QueueFull
from palinurus.testing.mail import FakeMail


@pytest.mark.torture
async def test_more_mails_than_are_held_in_hand(tmp_path: Path) -> None:
    heard: dict[str, list[str]] = {}
    shut = True

    async def submit(inbound: Inbound) -> str:
        if shut and inbound.sender.id.startswith("p0@"):
            raise QueueFull("wait")
        heard.setdefault(inbound.sender.id, []).append(inbound.text)
        return "x"

    async with FakeMail() as people:
        channel = people.channel(str(tmp_path))
        running = asyncio.ensure_future(channel.run(submit))
        await until(lambda: channel.status().state == "ready")
        total = module.AHEAD + 100
        for number in range(total):
            await people.say(f"m{number}", sender=f"p{0 if number < 40 else number % 4 + 1}")
        rest = total - 40
        await until(lambda: sum(map(len, heard.values())) == rest)
        shut = False
        await until(lambda: len(heard.get("p0@people.test", ())) == 40)
        await until(lambda: all(people.is_seen(number) for number in range(1, total + 1)))
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    numbers = {who: [int(text[1:]) for text in texts] for who, texts in heard.items()}
    assert all(found == sorted(found) for found in numbers.values()) and sum(map(len, numbers.values())) == total
    # All is done: who comes next begins after it.
    again: list[str] = []

    async def once(inbound: Inbound) -> str:
        again.append(inbound.text)
        return "x"

    async with people:
        channel = people.channel(str(tmp_path))
        running = asyncio.ensure_future(channel.run(once))
        await until(lambda: channel.status().state == "ready")
        await people.say("new")
        await until(lambda: bool(again))
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert again == ["new"]
