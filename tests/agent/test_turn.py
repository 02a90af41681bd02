"""One claimed message from plan to settlement: what a turn leaves behind when its end never gets to the disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from flow.test_app import settings, transcript
from palinurus.app import App
from palinurus.clock import Clock, SystemClock
from palinurus.store.factory import open_store
from palinurus.store.port import Settlement, StaleClaim, Store
from palinurus.testing.home import check_home
from palinurus.testing.model import ScriptedModel, say
from support import inbound


class Interfering:
    """A store in which, once, somebody else ends the message first."""

    def __init__(self, inner: Store) -> None:
        self._inner, self._left = inner, 1

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def settle(self, claim: Any, end: Settlement) -> None:
        if self._left:
            self._left -= 1
            await self._inner.settle(claim, Settlement("failed", "ended by somebody else"))
            raise StaleClaim("ended already")
        await self._inner.settle(claim, end)


async def open_interfering(home: str, clock: Clock) -> Store:
    return cast("Store", Interfering(await open_store(home, clock)))


async def test_what_never_reached_the_disk_is_not_what_the_next_turn_goes_on_from(tmp_path: Path) -> None:
    """Else the next line hangs on one that no file has, and the whole turn is a dead branch after the next start."""
    model = ScriptedModel([say("never written"), say("second")])
    app = App(settings(tmp_path / "h"), {}, SystemClock(), model=model)
    app.open_store = open_interfering
    await app.start()
    try:
        for text in ("q1", "q2"):
            await app.wait((await app.submit(inbound(text, push=False))).id)
    finally:
        await app.stop()
    assert [m.text for m in model.requests[1].messages] == ["q2"]
    assert [line["message"]["role"] for line in transcript(tmp_path / "h")[1:]] == ["user", "assistant"]
    assert check_home(str(tmp_path / "h")) == []
