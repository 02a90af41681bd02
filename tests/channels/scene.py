"""The whole program in front of a fake platform, in this process or in one of its own that can be killed."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any

from nursery import Child, nursery
from palinurus.app import App
from palinurus.channels import CHANNELS
from palinurus.config.load import load_config
from palinurus.core.types.model import Model
from palinurus.testing.home import make_home
from palinurus.testing.model import ScriptedModel
from palinurus.testing.platform import FastClock
from ports import reserve_port

PROVIDER = {"baseUrl": "http://127.0.0.1:9/v1", "apiKey": "k", "models": [{"id": "m"}]}


async def until(true: Callable[[], Any], seconds: float = 60) -> None:
    async with asyncio.timeout(seconds):
        while not true():
            await asyncio.sleep(0.005)


def rules(platform: Any, owner: str, own: dict[str, Any]) -> dict[str, Any]:
    """The owner may all, in groups everybody may speak who means us."""
    usual = {"dmPolicy": "allowlist", "allowFrom": [owner], "groupPolicy": "open"}
    return {**platform.section, **usual, "groups": {"*": {"requireMention": True}}, **own}


@asynccontextmanager
async def running(
    home: Path,
    model: Model,
    platform: Any,
    owner: str,
    own: dict[str, Any] | None = None,
    *,
    waits: bool = True,
    **changes: Any,
) -> AsyncIterator[App]:
    """`own` changes the channel's section, `changes` the rest of the config. `waits` until the channel is ready."""
    name = platform.name
    config = {
        "models": {"providers": {"fake": PROVIDER}},
        "agents": {"defaults": {"model": {"primary": "fake/m"}}},
        "commands": {"ownerAllowFrom": [f"{name}:{owner}"]},
        "channels": {name: rules(platform, owner, own or {})},
        **changes,
    }
    home.mkdir(exist_ok=True)
    (home / "palinurus.json").write_text(json.dumps(config))
    app = App(load_config(str(home), {}).settings, {"HOME": str(home)}, FastClock(), model=model)
    await app.start()
    try:
        await until(lambda: not waits or app.channels[name].status().state == "ready")
        yield app
    finally:
        await app.stop()


@asynccontextmanager
async def hurried(app: App) -> AsyncIterator[None]:
    """The next two minutes of the day pass at once: replies that wait for another try have it."""

    async def hurry() -> None:
        assert isinstance(app.clock, FastClock)
        for _ in range(120):
            app.clock.ahead += 1000
            for name in app.channels:
                app.deliverer.wake(name)
            await asyncio.sleep(0.02)

    task = asyncio.ensure_future(hurry())
    try:
        yield
    finally:
        task.cancel()


def texts(platform: Any, chat: str = "") -> list[str]:
    return [one.text for one in platform.visible_messages(chat)]


def asked(model: ScriptedModel, number: int = -1) -> str:
    """What the model was told last in a request."""
    return str(model.requests[number].messages[-1].text)


class Gateway:
    """A gateway in a process of its own, and how to kill it. `port` is that of the one that is up."""

    def __init__(self, root: Path, model_url: str, platform: Any, owner: str, **changes: Any) -> None:
        config = {"channels": {platform.name: rules(platform, owner, {})}, **changes}
        self.home = make_home(root, config, url=model_url)
        self.port = 0
        self._needs = CHANNELS[platform.name].where.partition(":")[0]

    @contextmanager
    def up(self, crash: str = "") -> Iterator[Child]:
        """Running while inside; killed at the end if it still is."""
        self.port = reserve_port()
        kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "LANG") if name in os.environ}
        above = os.path.dirname(self.home)
        env = {**kept, "HOME": above, "PALINURUS_HOME": self.home, "PALINURUS_CRASH": crash}
        args, log = ["gateway", "--port", str(self.port)], os.path.join(self.home, "log")
        process = nursery().start(args, env=env, cwd=above, log=log, needs=self._needs)
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """What its database says."""
        with closing(sqlite3.connect(f"file:{self.home}/state.db?mode=ro", uri=True)) as conn:
            return conn.execute(query).fetchall()

    def delivered(self) -> bool:
        """Is nothing on its way to people any more?"""
        return self.rows("SELECT 1 FROM outbox WHERE state IN ('pending', 'sending') LIMIT 1") == []
