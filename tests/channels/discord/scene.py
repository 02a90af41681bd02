"""The whole program in front of the fake Discord, for the tests of this folder."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

from palinurus.app import App
from palinurus.clock import SystemClock
from palinurus.config.load import load
from palinurus.core.types.model import Model
from palinurus.testing.discord.server import FakeDiscord

MODELS = {"providers": {"fake": {"baseUrl": "http://127.0.0.1:9/v1", "apiKey": "k", "models": [{"id": "m"}]}}}


class Hasty(SystemClock):
    """Pauses between tries are cut; what people have time for is not."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds if seconds > 30 else min(seconds, 0.02))


async def until(true: Callable[[], Any], seconds: float = 10) -> None:
    async with asyncio.timeout(seconds):
        while not true():
            await asyncio.sleep(0.005)


def config(platform: FakeDiscord, section: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    allowed = [platform.world.person("human")["id"], platform.world.person("friend")["id"]]
    own = {
        **platform.section,
        "dmPolicy": "allowlist",
        "allowFrom": allowed,
        "groupPolicy": "open",
        "groups": {"*": {"requireMention": True}},
        **section,
    }
    return {
        "models": MODELS,
        "agents": {"defaults": {"model": {"primary": "fake/m"}}},
        "channels": {"discord": own},
        **changes,
    }


@asynccontextmanager
async def running(
    home: Path,
    platform: FakeDiscord,
    model: Model,
    section: dict[str, Any] | None = None,
    *,
    waits: bool = True,
    **changes: Any,
) -> AsyncIterator[App]:
    home.mkdir(exist_ok=True)
    (home / "palinurus.json").write_text(json.dumps(config(platform, section or {}, changes)))
    app = App(load(str(home), {}).settings, {}, Hasty(), model=model)
    await app.start()
    try:
        await until(lambda: not waits or app.channels["discord"].status().state == "ready")
        yield app
    finally:
        await app.stop()


def texts(platform: FakeDiscord, chat: str = "") -> list[str]:
    return [one.text for one in platform.shown(chat)]


def settled(home: Path) -> int:
    """How many replies are on record as delivered; -1 while one is not."""
    with closing(sqlite3.connect(f"file:{home}/state.db?mode=ro", uri=True)) as conn:
        states = [state for (state,) in conn.execute("SELECT state FROM outbox")]
    return len(states) if set(states) <= {"sent"} else -1
