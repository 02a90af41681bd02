"""One claimed message from plan to settlement: what a turn leaves behind when its end never gets to the disk."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any, cast

import pytest

from flow.test_app import running, settings, transcript
from palinurus.agent.turn import _before
from palinurus.app import App
from palinurus.clock import Clock, SystemClock
from palinurus.core.types.inbound import Attachment, TurnOptions
from palinurus.core.types.messages import AssistantMessage, ImageBlock, TextBlock, ToolResult, UserMessage
from palinurus.store.factory import open_store
from palinurus.store.port import Settlement, StaleClaim, Store
from palinurus.testing.home import check_home
from palinurus.testing.model import ScriptedModel, say
from support import inbound, plan


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


@pytest.mark.parametrize("what", ["images", "files"])
async def test_a_message_without_words_is_read_if_something_came_with_it(tmp_path: Path, what: str) -> None:
    (tmp_path / "note.txt").write_text("buy milk")
    came: dict[str, tuple[Any, ...]] = {
        "images": (ImageBlock(base64.b64encode(b"\x89PNG\r\n\x1a\n").decode(), "image/png"),),
        "files": (Attachment(str(tmp_path / "note.txt"), "note.txt", "text/plain", 8),),
    }
    model = ScriptedModel([say("seen")])
    async with running(tmp_path / "h", model) as app:
        row = await app.wait((await app.submit(inbound("", push=False, **{what: came[what]}))).id)
    assert (row.outcome, row.note, len(model.requests)) == ("answered", "seen", 1)


async def test_a_run_that_cannot_begin_is_explained(tmp_path: Path) -> None:
    async with running(tmp_path / "h", ScriptedModel([])) as app:
        asked = inbound("go", push=False, options=TurnOptions(model="nobody/nothing"))
        row = await app.wait((await app.submit(asked)).id)
    assert row.outcome == "failed" and "nobody" in (row.note or "") and "broke" not in (row.note or "")


def test_what_a_turn_did_before_a_crash_is_its_own_results_and_words() -> None:
    def result(text: str) -> ToolResult:
        return ToolResult(text, "read", (TextBlock(text),))

    first, last = AssistantMessage((TextBlock("First."),)), AssistantMessage((TextBlock("Last."),))
    history = (result("of another turn"), UserMessage("go"), first, result("its own"), last)
    assert _before(plan(history=history, earlier=(first, last)), last) == [result("its own"), first]
    assert _before(plan(history=history), None) == []
