"""Editors that lend their hands to sessions: who offers what, and what they are asked. One per process; the gateway
brings the wire. Nothing of it is on disk: after a restart editors offer anew, and until then files come from the disk.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import msgspec

from palinurus.core.types.editor import NEEDS, EditorAbility, EditorAnswer, EditorOrder

REQUEST = "editor.request"
CLOSED = "the editor was closed"
SILENT = "the editor did not answer within {seconds:g} s"
# (connection, event, payload): False if it is gone
SendTo = Callable[[str, str, Any], bool]


class EditorOffer(msgspec.Struct):
    """What one connection does for one session. `deaf`: it let something wait, and has said nothing since."""

    conn: str
    abilities: frozenset[EditorAbility]
    deaf: bool = False


class _Waiting(msgspec.Struct, frozen=True):
    offer: EditorOffer
    answer: asyncio.Future[EditorAnswer]


class EditorDesk:
    """Implements `core.types.editor.EditorPort`. `hold` is set by who knows the commands that run."""

    def __init__(self) -> None:
        self.hold: Callable[[tuple[str, ...]], AbstractContextManager[None]] = lambda roots: nullcontext()
        self._send: SendTo = lambda conn, event, payload: False
        self._offers: dict[str, list[EditorOffer]] = {}  # of a session; the last one counts
        self._waiting: dict[str, _Waiting] = {}

    def offer(self, session: str, conn: str, abilities: frozenset[EditorAbility], send: SendTo) -> None:
        """A connection does this for the session from now on; nothing: it stops."""
        self._send = send
        kept = [one for one in self._offers.pop(session, ()) if one.conn != conn]
        if found := kept + ([EditorOffer(conn, abilities)] if abilities else []):
            self._offers[session] = found

    def leave(self, conn: str) -> None:
        """It is gone."""
        for session in list(self._offers):
            self.offer(session, conn, frozenset(), self._send)
        for waiting in [one for one in self._waiting.values() if one.offer.conn == conn]:
            _settle(waiting, EditorAnswer(False, why=CLOSED, gone=True))

    def take_answer(self, conn: str, ident: str, answer: EditorAnswer) -> bool:
        """From the connection that was asked. It hears again, be it too late for this question."""
        for offers in self._offers.values():
            for one in offers:
                one.deaf = one.deaf and one.conn != conn
        waiting = self._waiting.get(ident)
        if waiting is None or waiting.offer.conn != conn:
            return False
        _settle(waiting, answer)
        return True

    def offers(self, session: str, ability: EditorAbility) -> bool:
        return self._find(session, ability) is not None

    async def ask(self, order: EditorOrder, seconds: float) -> EditorAnswer:
        offer, ident = self._find(order.session, NEEDS[order.action]), uuid.uuid4().hex
        if offer is None:
            return EditorAnswer(False, why=CLOSED, gone=True)
        waiting = _Waiting(offer, asyncio.get_running_loop().create_future())
        self._waiting[ident] = waiting
        try:
            told = {"id": ident, "sessionKey": order.session, "action": order.action, "params": order.params}
            if not self._send(offer.conn, REQUEST, told):
                return EditorAnswer(False, why=CLOSED, gone=True)
            await asyncio.wait({waiting.answer}, timeout=seconds)
            if waiting.answer.done():
                return waiting.answer.result()
            offer.deaf = order.action in ("read", "write", "start")  # a command takes as long as it takes
            return EditorAnswer(False, why=SILENT.format(seconds=seconds), gone=True)
        finally:
            del self._waiting[ident]

    def _find(self, session: str, ability: EditorAbility) -> EditorOffer | None:
        offer = next(reversed(self._offers.get(session, ())), None)
        return offer if offer is not None and ability in offer.abilities and not offer.deaf else None


def _settle(waiting: _Waiting, answer: EditorAnswer) -> None:
    if not waiting.answer.done():
        waiting.answer.set_result(answer)
