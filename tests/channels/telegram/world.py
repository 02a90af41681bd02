"""An App whose only channel is the fake Telegram. Ann may everything, others may speak in groups."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from channels import scene
from palinurus.app import App
from palinurus.core.types.model import Model
from palinurus.testing.telegram.server import ANN, FakeTelegram


def running(
    home: Path, model: Model, fake: FakeTelegram, rules: dict[str, Any] | None = None, **changes: Any
) -> AbstractAsyncContextManager[App]:
    """`rules` change channels.telegram, `changes` the rest of the config."""
    return scene.running(home, model, fake, str(ANN), {"streaming": "off", **(rules or {})}, **changes)
