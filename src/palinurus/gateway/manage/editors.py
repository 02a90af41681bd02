"""editor.*: an editor's bridge (`pal acp`) lends its hands to a session, and answers what it is asked for. The requests
come as the event `editor.request`, to the connection that offered and to no other.
"""

from __future__ import annotations

from typing import Any

import msgspec

from palinurus.agent.editors import EditorDesk
from palinurus.core.types.editor import EditorAbility, EditorAnswer
from palinurus.gateway.context import SessionParams, require
from palinurus.gateway.rpc import ADMIN, GatewayMethod, MethodCall, MethodParams, NonEmpty


class EditorOfferParams(SessionParams, frozen=True):
    abilities: tuple[EditorAbility, ...] = ()


class EditorAnswerParams(MethodParams, frozen=True):
    id: NonEmpty
    ok: bool
    told: dict[str, Any] = msgspec.field(default_factory=dict)
    why: str = ""


def _desk(call: MethodCall) -> EditorDesk:
    return require(call.program.editors, "editors cannot be used here")


async def offer_editor(call: MethodCall, asked: EditorOfferParams) -> dict[str, Any]:
    """From now on, for as long as the connection lasts; no abilities: no longer."""
    key = str(asked.resolve(call))
    _desk(call).offer(key, call.client.conn, frozenset(asked.abilities), call.gateway.send)
    return {"sessionKey": key, "abilities": list(asked.abilities)}


async def take_editor_answer(call: MethodCall, asked: EditorAnswerParams) -> dict[str, Any]:
    """What the editor said; `taken` false: nobody waits for it any more."""
    answer = EditorAnswer(asked.ok, asked.told, asked.why[:300])
    return {"taken": _desk(call).take_answer(call.client.conn, asked.id, answer)}


METHODS: tuple[GatewayMethod, ...] = (
    GatewayMethod("editor.offer", ADMIN, EditorOfferParams, offer_editor, listed=False),
    GatewayMethod("editor.answer", ADMIN, EditorAnswerParams, take_editor_answer, listed=False),
)
