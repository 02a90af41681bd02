"""kill -9 of the whole program between Discord and the disk: every message is answered, and every reply seen once."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from channels.discord.scene import settled, texts, until
from nursery import Child, Nursery
from palinurus.testing.discord.server import FakeDiscord
from palinurus.testing.home import make_home
from palinurus.testing.server import ModelServer


class Program:
    """`pal gateway` in a process of its own."""

    def __init__(self, home: str, nursery: Nursery) -> None:
        self.home = home
        self._nursery = nursery
        self._child: Child | None = None

    def up(self, crash: str = "") -> None:
        kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "LANG") if name in os.environ}
        above = os.path.dirname(self.home)
        env = {**kept, "HOME": above, "PALINURUS_HOME": self.home, "PALINURUS_CRASH": crash}
        log = os.path.join(above, "log")
        self._child = self._nursery.start(["gateway", "--port", "0"], env=env, cwd=above, log=log)

    async def dead(self) -> int | None:
        child = self._child
        assert child is not None
        await until(lambda: child.poll() is not None, 20)
        return child.returncode

    def kill(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.wait()


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    with Nursery() as made:
        yield made


@pytest.fixture
async def discord() -> AsyncIterator[FakeDiscord]:
    async with FakeDiscord() as made:
        yield made


@pytest.fixture
async def pal(discord: FakeDiscord, tmp_path: Path, nursery: Nursery) -> AsyncIterator[Program]:
    async with ModelServer() as model:
        own = {**discord.section, "dmPolicy": "allowlist", "allowFrom": [discord.world.person("")["id"]]}
        config = {"channels": {"discord": own}, "messages": {"queue": {"mode": "followup"}}}
        made = Program(make_home(tmp_path, config, url=model.url), nursery)
        yield made
        made.kill()


async def ready(discord: FakeDiscord, count: int) -> None:
    await until(lambda: len(discord.sessions.identified) == count and discord.sessions.all, 20)


async def test_killed_between_send_and_receipt(discord: FakeDiscord, pal: Program) -> None:
    """Discord has the reply, the disk does not know. The same words were said before, too."""
    pal.up("outbox.sent:2")
    await ready(discord, 1)
    await discord.say("SAY Hello there.")
    await until(lambda: texts(discord) == ["Hello there."])
    await discord.say("SAY Hello there.")
    assert await pal.dead() == 137
    assert texts(discord) == ["Hello there."] * 2
    pal.up()
    await until(lambda: settled(Path(pal.home)) == 2, 20)
    assert texts(discord) == ["Hello there."] * 2


@pytest.mark.torture
@pytest.mark.parametrize("point", ["accept.before:1", "accept.after:1", "outbox.claimed:1", "outbox.sent:1"])
async def test_killed_on_the_way(discord: FakeDiscord, pal: Program, point: str) -> None:
    """And nobody remembers anything: no session can be resumed, no nonce is known any more."""
    discord.world.forgetful = True
    pal.up(point)
    await ready(discord, 1)
    await discord.say("SAY Hello there.")
    assert await pal.dead() == 137
    discord.sessions.forget()
    await discord.say("SAY And again.")
    pal.up()
    await until(lambda: len(texts(discord)) == 2 and settled(Path(pal.home)) == 2, 20)
    assert texts(discord) == ["Hello there.", "And again."]
