"""The whole program in front of the fake Discord, for the tests of this folder."""

from __future__ import annotations

import sqlite3
from contextlib import AbstractAsyncContextManager, closing
from pathlib import Path
from typing import Any

from channels import scene
from palinurus.app import App
from palinurus.core.types.model import Model
from palinurus.testing.discord.server import FakeDiscord


def running(
    home: Path, platform: FakeDiscord, model: Model, section: dict[str, Any] | None = None, **changes: Any
) -> AbstractAsyncContextManager[App]:
    """The human and a friend may write to us; nobody is the owner. `section` changes channels.discord."""
    allowed = [platform.world.person(name)["id"] for name in ("human", "friend")]
    return scene.running(
        home, model, platform, "", {"allowFrom": allowed, **(section or {})}, **{"commands": {}, **changes}
    )


def settled(home: Path) -> int:
    """How many replies are on record as delivered; -1 while one is not."""
    with closing(sqlite3.connect(f"file:{home}/state.db?mode=ro", uri=True)) as conn:
        states = [state for (state,) in conn.execute("SELECT state FROM outbox")]
    return len(states) if set(states) <= {"sent"} else -1
