"""The whole program in front of a fake platform, in this process or in one of its own that can be killed."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from palinurus.app import App
from palinurus.clock import SystemClock
from palinurus.config.load import load
from palinurus.core.types.model import Model
from palinurus.testing.home import make_home
from palinurus.testing.model import ScriptedModel

PROVIDER = {"baseUrl": "http://127.0.0.1:9/v1", "apiKey": "k", "models": [{"id": "m"}]}


class Hasty(SystemClock):
    """Pauses between tries are cut; what waits for people waits."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds if seconds > 60 else min(seconds, 0.02))


async def until(true: Callable[[], Any], seconds: float = 10) -> None:
    async with asyncio.timeout(seconds):
        while not true():
            await asyncio.sleep(0.005)


def rules(platform: Any, owner: str, own: dict[str, Any]) -> dict[str, Any]:
    """The owner may all, in groups everybody may speak who means us."""
    usual = {"dmPolicy": "allowlist", "allowFrom": [owner], "groupPolicy": "open"}
    return {**platform.section, **usual, "groups": {"*": {"requireMention": True}}, **own}


@asynccontextmanager
async def running(
    home: Path, model: Model, platform: Any, owner: str, own: dict[str, Any] | None = None, **changes: Any
) -> AsyncIterator[App]:
    """`own` changes the channel's section, `changes` the rest of the config."""
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
    app = App(load(str(home), {}).settings, {"HOME": str(home)}, Hasty(), model=model)
    await app.start()
    try:
        await until(lambda: app.channels[name].status().state == "ready")
        yield app
    finally:
        await app.stop()


def texts(platform: Any, chat: str = "") -> list[str]:
    return [one.text for one in platform.shown(chat)]


def asked(model: ScriptedModel, number: int = -1) -> str:
    """What the model was told last in a request."""
    return str(model.requests[number].messages[-1].text)


class Gateway:
    """A gateway in a process of its own, and how to kill it."""

    def __init__(self, root: Path, model_url: str, platform: Any, owner: str) -> None:
        config = {"channels": {platform.name: rules(platform, owner, {})}}
        self.home = make_home(root, config, url=model_url)

    @contextmanager
    def up(self, crash: str = "") -> Iterator[subprocess.Popen[bytes]]:
        """Running while inside; killed at the end if it still is."""
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1]
        kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "LANG") if name in os.environ}
        env = {**kept, "HOME": os.path.dirname(self.home), "PALINURUS_HOME": self.home, "PALINURUS_CRASH": crash}
        argv = [sys.executable, "-m", "palinurus", "gateway", "--port", str(port)]
        with open(os.path.join(self.home, "log"), "ab") as log:
            process = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            yield process
        finally:
            process.kill()
            process.wait()
