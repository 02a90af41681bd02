"""Editors that lend their hands: who is asked, who may answer, and what silence means."""

from __future__ import annotations

import asyncio
from typing import Any

from palinurus.agent.editors import EditorDesk
from palinurus.core.types.editor import EditorAnswer, EditorOrder

READ = EditorOrder("s", "read", {"path": "/p/f"})


class Wire:
    def __init__(self) -> None:
        self.desk = EditorDesk()
        self.sent: list[tuple[str, dict[str, Any]]] = []
        self.there = True

    def send(self, conn: str, event: str, payload: Any) -> bool:
        assert event == "editor.request"
        self.sent.append((conn, payload))
        return self.there


async def test_the_last_that_offered_is_asked_and_only_its_answer_counts() -> None:
    wire = Wire()
    for conn in ("one", "two"):
        wire.desk.offer("s", conn, frozenset(("read",)), wire.send)
    assert wire.desk.offers("s", "read") and not wire.desk.offers("s", "write") and not wire.desk.offers("t", "read")
    asking = asyncio.ensure_future(wire.desk.ask(READ, 60))
    await asyncio.sleep(0)
    ((conn, told),) = wire.sent
    assert (conn, told["action"], told["sessionKey"]) == ("two", "read", "s")
    assert not wire.desk.take_answer("one", told["id"], EditorAnswer(True, {"text": "forged"}))
    assert wire.desk.take_answer("two", told["id"], EditorAnswer(True, {"text": "t"}))
    assert (await asking).told == {"text": "t"}
    wire.desk.leave("two")
    asking = asyncio.ensure_future(wire.desk.ask(READ, 60))
    await asyncio.sleep(0)
    assert wire.sent[-1][0] == "one"
    wire.desk.leave("one")
    assert (await asking).gone and not wire.desk.offers("s", "read")
    assert (await wire.desk.ask(READ, 60)).gone


async def test_who_is_silent_is_not_asked_again_until_it_speaks() -> None:
    wire = Wire()
    wire.desk.offer("s", "c", frozenset(("read", "terminal")), wire.send)
    assert (await wire.desk.ask(READ, 0)).gone
    assert not wire.desk.offers("s", "read") and (await wire.desk.ask(READ, 60)).gone and len(wire.sent) == 1
    assert not wire.desk.take_answer("c", wire.sent[0][1]["id"], EditorAnswer(True))  # too late, but it lives
    assert wire.desk.offers("s", "read")
    assert (await wire.desk.ask(EditorOrder("s", "wait", {}), 0)).gone and wire.desk.offers("s", "terminal")
    wire.there = False
    assert (await wire.desk.ask(READ, 60)).gone
