"""canvas.*: what a session shows, what a person did on it, and what a script in it gave back. Ours: OpenClaw's clients
draw a canvas as a node (`canvas.present` and so on are commands of node.invoke there).
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from palinurus.core.canvas import MAX_CONTEXT, CanvasAction, write_action
from palinurus.core.types.inbound import Inbound, Target
from palinurus.gateway.context import MainSessionParams, SessionParams, require
from palinurus.gateway.methods.chat import CHANNEL, submit_inbound
from palinurus.gateway.rpc import ADMIN, READ, WRITE, GatewayMethod, MethodCall, MethodError, NonEmpty
from palinurus.tools.canvas.offer import CanvasOffer

Name = Annotated[str, Meta(min_length=1, max_length=200)]
Ident = Annotated[str, Meta(min_length=8, max_length=100, pattern=r"^[\w-]+$")]


class CanvasActionParams(SessionParams, frozen=True, kw_only=True):
    id: Ident  # of this one action: sent again, it is the same
    name: Name
    surface_id: Annotated[str, Meta(max_length=200)] = ""
    source_component_id: Annotated[str, Meta(max_length=200)] = ""
    context: dict[str, Any] = msgspec.field(default_factory=dict)


class CanvasResultParams(SessionParams, frozen=True, kw_only=True):
    id: NonEmpty
    ok: bool
    value: str | None = None


def _offer(call: MethodCall) -> CanvasOffer:
    offer = require(call.program.canvas, "this gateway has no canvas")
    if offer.absence:
        raise MethodError(f"there is no canvas: {offer.absence}", code="UNAVAILABLE")
    return offer


async def get_canvas(call: MethodCall, asked: MainSessionParams) -> dict[str, Any]:
    """What a session shows, and an address that opens it for an hour. Who asks is taken to draw it."""
    key, board = str(asked.resolve(call)), _offer(call).board
    state = await board.find(key)
    if state is None or not state.shown:
        return {"sessionKey": key, "shown": False, "revision": state.revision if state else 0}
    path, until = board.make_address(state)
    board.add_viewer(key, call.client.conn)
    return {
        "sessionKey": key,
        "shown": True,
        "revision": state.revision,
        "kind": "a2ui" if state.surfaces else "html",
        "title": state.title,
        "path": path,
        "expiresAtMs": until,
    }


async def act_on_canvas(call: MethodCall, asked: CanvasActionParams) -> dict[str, Any]:
    """A person used something on the canvas: a message to its agent, in words that are not the person's."""
    key, board = asked.resolve(call), _offer(call).board
    state = await board.find(str(key))
    if state is None or not state.shown:
        raise MethodError("this canvas is not shown any more")
    if len(msgspec.json.encode(asked.context)) > MAX_CONTEXT:
        raise MethodError(f"what comes with an action has at most {MAX_CONTEXT} bytes")
    wait = board.take_action(str(key))
    if wait:
        raise MethodError("too many actions; wait a moment", code="UNAVAILABLE", retry_after_ms=int(wait * 1000) + 1)
    action = CanvasAction(asked.name, asked.surface_id, asked.source_component_id, asked.context)
    # Nobody can guess the boundary, and the same action sent again is the same message.
    boundary = hashlib.sha256(f"{state.secret} {asked.id}".encode()).hexdigest()[:32]
    said = (_name_client(call),) if _name_client(call) else ()
    text, source = write_action(action, (*state.taint, *said), boundary)
    inbound = Inbound(
        Target(CHANNEL, to=str(key)),
        call.sender,
        f"canvas-{asked.id}",
        text,
        at=call.program.clock.now(),
        session=str(key),
        agent=key.agent,
        push=False,
        source=source,
    )
    accepted = await submit_inbound(call, inbound)
    return {"runId": inbound.event, "status": "in_flight" if accepted.duplicate else "started"}


async def answer_canvas_script(call: MethodCall, asked: CanvasResultParams) -> dict[str, Any]:
    """What a script gave back in the page that this client draws."""
    key, board = str(asked.resolve(call)), _offer(call).board
    drawing = call.client.conn in board.list_viewers(key, {client.conn for client in call.gateway.clients()})
    source = _name_client(call)
    return {"ok": drawing and board.answer(asked.id, key, ok=asked.ok, value=asked.value, source=source)}


def _name_client(call: MethodCall) -> str:
    """Whose word it is (taint), as with what the client says in the chat; "" for the owner's."""
    return "" if call.client.may(ADMIN) else f"client {call.sender.id}"[:80]


METHODS: tuple[GatewayMethod, ...] = (
    GatewayMethod("canvas.get", READ, MainSessionParams, get_canvas),
    GatewayMethod("canvas.action", WRITE, CanvasActionParams, act_on_canvas),
    GatewayMethod("canvas.result", WRITE, CanvasResultParams, answer_canvas_script),
)
