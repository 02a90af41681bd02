"""node.*: other machines that do something for the agent. Operators list, pair, name and ask them; a node answers and
tells what happens there, and has no other method. Who may be asked for what is decided in `services/nodes`.
"""

from __future__ import annotations

import shlex
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from palinurus.config.sections.gateway import is_loopback
from palinurus.core.policy.card import write_variables
from palinurus.core.types.approval import ApprovalDecision, ApprovalRequest
from palinurus.core.types.node import RUN, NodeAnswer, NodeOrder
from palinurus.errors import BadRequest, NotFound, Unauthorized
from palinurus.gateway.context import require
from palinurus.gateway.rpc import (
    ADMIN,
    NODE,
    PAIRING,
    READ,
    WRITE,
    GatewayMethod,
    MethodCall,
    MethodError,
    MethodParams,
    NonEmpty,
    NoParams,
)
from palinurus.gateway.token import find_location
from palinurus.gateway.ws.device import encode_base64url
from palinurus.services.nodes.board import QUEUED, NodeBoard
from palinurus.services.nodes.pairing import NodeFacts
from palinurus.services.nodes.pending import PendingItem

TIMEOUT_MS, LONGEST_MS = 30_000, 3_600_000
ANYWHERE = ("0.0.0.0", "::", "")


class NodeParams(MethodParams, frozen=True):
    node_id: NonEmpty


class NodeRenameParams(NodeParams, frozen=True):
    display_name: NonEmpty


class NodeInvokeParams(NodeParams, frozen=True):
    command: NonEmpty
    idempotency_key: NonEmpty
    params: Any = None
    timeout_ms: Annotated[int, Meta(ge=0)] = TIMEOUT_MS


class NodeRequestIdParams(MethodParams, frozen=True):
    request_id: NonEmpty


class NodeApproveParams(NodeRequestIdParams, frozen=True):
    commands: tuple[str, ...] | None = None  # ours: agree to these only


class NodeVerifyParams(NodeParams, frozen=True):
    token: NonEmpty


class NodePairParams(NodeParams, frozen=True):
    display_name: str = ""
    platform: str = ""
    version: str = ""
    core_version: str = ""
    ui_version: str = ""
    device_family: str = ""
    model_identifier: str = ""
    caps: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    permissions: dict[str, bool] | None = None
    remote_ip: str = ""
    silent: bool = False


class SetupCodeParams(MethodParams, frozen=True):
    url: str = ""  # ours: where the other machine reaches this gateway
    access: Literal["node", "phone"] = "node"  # ours: a phone's app is an operator, too


class NodeFault(msgspec.Struct, frozen=True):
    code: str | None = None
    message: str | None = None


class NodeResultParams(msgspec.Struct, frozen=True, rename="camel"):
    """What nodes send; what they add to it is not looked at."""

    id: NonEmpty
    node_id: NonEmpty
    ok: bool
    payload: Any = None
    payload_json: str | None = msgspec.field(default=None, name="payloadJSON")
    error: NodeFault | None = None


class NodeEventParams(msgspec.Struct, frozen=True):
    event: NonEmpty
    payload: Any = None
    payload_json: str | None = msgspec.field(default=None, name="payloadJSON")


class PendingEnqueueParams(NodeParams, frozen=True):
    type: Literal["status.request", "location.request"]
    priority: Literal["normal", "high"] = "normal"
    expires_in_ms: Annotated[int, Meta(ge=1000, le=86_400_000)] | None = None
    wake: bool = True  # phones are woken by push messages, which nobody sends here


class PendingDrainParams(MethodParams, frozen=True):
    max_items: Annotated[int, Meta(ge=1, le=10)] = 4


class PendingAckParams(MethodParams, frozen=True):
    ids: Annotated[tuple[NonEmpty, ...], Meta(min_length=1)]


async def _open(call: MethodCall) -> NodeBoard:
    require(call.program.nodes, "there are no nodes here")
    return await call.gateway.open_nodes()


async def list_nodes(call: MethodCall, asked: NoParams) -> dict[str, Any]:
    """Every node that is paired or connected."""
    board = await _open(call)
    return {"ts": call.program.clock.now(), "nodes": [board.describe(view.id) for view in board.views()]}


async def describe_node(call: MethodCall, asked: NodeParams) -> dict[str, Any]:
    """One of them, by id or name."""
    board = await _open(call)
    return {"ts": call.program.clock.now(), **board.describe(_find(board, asked.node_id))}


async def rename_node(call: MethodCall, asked: NodeRenameParams) -> dict[str, Any]:
    """What people call it."""
    board = await _open(call)
    node = await board.pairing.rename(_find(board, asked.node_id), asked.display_name)
    return {"nodeId": node.node_id, "displayName": node.name}


async def list_node_pairs(call: MethodCall, asked: NoParams) -> dict[str, Any]:
    """Requests that wait and nodes that were approved."""
    board = await _open(call)
    paired = [board.describe(node.node_id) for node in board.pairing.nodes()]
    return {"pending": board.waiting(), "paired": paired}


async def request_node_pairing(call: MethodCall, asked: NodePairParams) -> dict[str, Any]:
    """For a node that has not connected yet. Its id is the digest of its key: nobody else can take the approval up."""
    names = ("platform", "display_name", "version", "device_family", "caps", "commands")
    said: dict[str, Any] = {name: getattr(asked, name) for name in names}
    facts = NodeFacts(asked.node_id, **said, permissions=asked.permissions or {})
    request, created = await (await _open(call)).pairing.request(facts)
    return {"status": "pending", "created": created, "request": request.describe()}


async def approve_node(call: MethodCall, asked: NodeApproveParams) -> dict[str, Any]:
    """Say yes to a request; with `commands` to those only."""
    board = await _open(call)
    try:
        node = await board.pairing.approve(asked.request_id, call.client.caller.scopes, asked.commands)
    except (NotFound, Unauthorized) as error:
        raise MethodError(error.message) from None
    return {"requestId": asked.request_id, "node": board.describe(node.node_id)}


async def reject_node(call: MethodCall, asked: NodeRequestIdParams) -> dict[str, Any]:
    """Say no to a request."""
    request = await (await _open(call)).pairing.reject(asked.request_id)
    return {"requestId": asked.request_id, "nodeId": request.node_id}


async def remove_node(call: MethodCall, asked: NodeParams) -> dict[str, Any]:
    """Take a node's access away, at once and for good."""
    board = await _open(call)
    ident = _find(board, asked.node_id)
    await board.pairing.remove(ident)
    await board.pending.drop(ident)
    return {"nodeId": ident}


async def verify_node(call: MethodCall, asked: NodeVerifyParams) -> dict[str, Any]:
    """Is this the node's token?"""
    board = await _open(call)
    good = board.pairing.holds(asked.node_id, asked.token)
    return {"ok": good, **({"node": board.describe(asked.node_id)} if good else {})}


async def make_setup_code(call: MethodCall, asked: SetupCodeParams) -> dict[str, Any]:
    """A code with which one node pairs itself, for `pal node run --code` and as a QR code."""
    settings, place = call.program.settings, find_location(call.program.settings.home)
    port = place.port if place else settings.gateway.port
    url = asked.url.strip() or _guess_url(settings.gateway.bind, port, place, far=asked.access == "phone")
    if not url.startswith(("ws://", "wss://")):
        raise MethodError("url must begin with ws:// or wss://")
    board = await _open(call)
    token, expires = await board.pairing.make_code(phone=asked.access == "phone")
    pinned = {"tlsFingerprint": place.fingerprint} if place and place.fingerprint else {}
    code = msgspec.json.encode({"url": url, "bootstrapToken": token, "expiresAtMs": expires, **pinned})
    told = {"setupCode": encode_base64url(code), "expiresAtMs": expires, "gatewayUrl": url}
    return {**told, "auth": "bootstrap", "access": asked.access}


def _guess_url(bind: str, port: int, place: Any, *, far: bool) -> str:
    if bind in ANYWHERE or (far and is_loopback(bind)):
        raise MethodError("say with url how the other machine reaches this one, such as wss://192.168.1.5:18789")
    host = f"[{bind}]" if ":" in bind else bind
    return f"{'wss' if place is not None and place.fingerprint else 'ws'}://{host}:{port}"


# asking


async def invoke_node(call: MethodCall, asked: NodeInvokeParams) -> dict[str, Any]:
    """One command of a node. Starting a program there takes an administrator, or a person who is asked."""
    board = await _open(call)
    ident = _find(board, asked.node_id)
    params = asked.params if isinstance(asked.params, dict) else {}
    if asked.params is not None and not isinstance(asked.params, dict):
        raise MethodError("invalid node.invoke params: at /params: must be object")
    if (refused := board.refuse(ident, asked.command)) is not None:
        raise _to_error(refused, asked.command)
    said = await _authorize(call, board, ident, params) if asked.command == RUN else None
    key = f"{call.client.caller.id}:{asked.idempotency_key}"
    wait = min(asked.timeout_ms or TIMEOUT_MS, LONGEST_MS) / 1000
    order = NodeOrder(ident, asked.command, params, key, timeout=wait, approved=said)
    answer = await board.invoke(order)
    if not answer.ok:
        raise _to_error(answer, asked.command)
    payload = msgspec.json.encode(answer.payload).decode()
    told = {"ok": True, "nodeId": ident, "command": asked.command}
    return {**told, "payload": answer.payload, "payloadJSON": payload}


async def _authorize(call: MethodCall, board: NodeBoard, ident: str, params: dict[str, Any]) -> ApprovalDecision:
    """The owner at a client has decided by asking; for everybody else a person is asked. Raises MethodError."""
    argv = params.get("command")
    if not isinstance(argv, list) or not argv or not all(isinstance(word, str) for word in argv):
        raise MethodError("system.run needs command, a list of words")
    if call.client.may(ADMIN):
        return "allow-once"
    view, env = board.view(ident), params.get("env")
    ask = ApprovalRequest(
        "exec",
        str(params.get("agentId") or ""),
        str(params.get("sessionKey") or ""),
        run="",
        call=call.id,
        tool="exec",
        title=f"run a command on node {view.label}",
        command=shlex.join(argv),
        argv=tuple(argv),
        cwd=str(params.get("cwd") or ""),
        host="node",
        env=write_variables({name: str(value) for name, value in env.items()}) if isinstance(env, dict) else (),
        binding={"node": ident, "params": msgspec.json.encode(params, order="sorted").decode()},
        allowed=("allow-once", "deny"),
        asker=call.client.label,
    )
    told = await require(call.program.approvals, "nobody can be asked here").ask(ask)
    if not told.allowed:
        raise MethodError(f"not run: {'denied' if told.decision else told.by or 'nobody answered'}")
    return "allow-once"


def _find(board: NodeBoard, wanted: str) -> str:
    try:
        return board.find(wanted).id
    except (NotFound, BadRequest) as error:
        raise MethodError(error.message) from None


def _to_error(answer: NodeAnswer, command: str) -> MethodError:
    known = {"INVALID_REQUEST": "INVALID_REQUEST", "NOT_PAIRED": "NOT_PAIRED"}
    if answer.code == QUEUED:
        told = {"code": QUEUED, "command": command, **answer.payload}
        return MethodError(answer.message, code="UNAVAILABLE", details=told, retryable=True)
    details = {"reason": answer.code, "command": command, **({"outcome": "unknown"} if answer.unknown else {})}
    if answer.code == "INVALID_REQUEST" and "not allowed" in answer.message:
        details["reason"] = "command not allowlisted"
    return MethodError(answer.message or "the node failed", code=known.get(answer.code, "UNAVAILABLE"), details=details)


# what nodes say


async def take_node_result(call: MethodCall, asked: NodeResultParams) -> dict[str, Any]:
    """The answer to a command, from the connection that was asked."""
    board = await _open(call)
    payload = _read(asked.payload, asked.payload_json)
    fault = asked.error or NodeFault()
    answer = NodeAnswer(asked.ok, payload, fault.code or "", fault.message or "")
    taken = asked.node_id == call.client.caller.device and board.take_answer(
        call.client.conn, asked.node_id, asked.id, answer
    )
    return {"ok": True} if taken else {"ok": True, "ignored": True}


async def take_node_event(call: MethodCall, asked: NodeEventParams) -> dict[str, Any]:
    """Something that happened there."""
    board = await _open(call)
    handled, reason = board.take_event(call.client.conn, asked.event, _read(asked.payload, asked.payload_json))
    return {"ok": True, "event": asked.event, "handled": handled, "reason": reason}


async def list_skill_programs(call: MethodCall, asked: NoParams) -> dict[str, Any]:
    """The programs that skills need: a node may let those pass that it trusts."""
    program = call.program
    stock = require(program.stock, "there are no skills here")(program.settings.default_agent)
    found = [*stock.ready, *(skill for skill, _ in stock.waiting)]
    return {"bins": sorted({one for skill in found for one in (*skill.requires.bins, *skill.requires.any_bins)})}


# what waits until a node looks


async def enqueue_for_node(call: MethodCall, asked: PendingEnqueueParams) -> dict[str, Any]:
    """Have a node tell something when it next looks."""
    board = await _open(call)
    ident = _find(board, asked.node_id)
    item = await board.pending.add_work(ident, asked.type, asked.priority, asked.expires_in_ms)
    return {"nodeId": ident, "revision": item.created, "queued": _describe_work(item), "wakeTriggered": False}


async def drain_for_node(call: MethodCall, asked: PendingDrainParams) -> dict[str, Any]:
    """What a node is to tell; how it is, always."""
    board, ident = await _open(call), call.client.caller.device
    waiting = await board.pending.list_work(ident)
    items = [_describe_work(item) for item in waiting]
    if not any(item["type"] == "status.request" for item in items):
        now = call.program.clock.now()
        usual = {"id": "baseline-status", "type": "status.request", "priority": "default"}
        items.append({**usual, "createdAtMs": now, "expiresAtMs": None})
    more = len(items) > asked.max_items
    newest = max((item.created for item in waiting), default=0)
    return {"nodeId": ident, "revision": newest, "items": items[: asked.max_items], "hasMore": more}


async def pull_for_node(call: MethodCall, asked: NoParams) -> dict[str, Any]:
    """Commands that a node could not do in the background, if it still may."""
    board, ident = await _open(call), call.client.caller.device
    waiting = await board.pending.list_actions(ident, lambda command: board.refuse(ident, command) is None)
    shown = [
        {"id": item.id, "command": item.command, "paramsJSON": item.params, "enqueuedAtMs": item.created}
        for item in waiting
    ]
    return {"nodeId": ident, "actions": shown}


async def acknowledge_for_node(call: MethodCall, asked: PendingAckParams) -> dict[str, Any]:
    """The node took these."""
    board, ident = await _open(call), call.client.caller.device
    left = await board.pending.drop(ident, asked.ids)
    return {"nodeId": ident, "ackedIds": list(dict.fromkeys(asked.ids)), "remainingCount": left}


def _describe_work(item: PendingItem) -> dict[str, Any]:
    told = {"id": item.id, "type": item.type, "priority": item.priority}
    return {**told, "createdAtMs": item.created, "expiresAtMs": item.expires}


def _read(payload: Any, text: str | None) -> Any:
    if text is None:
        return payload
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


METHODS: tuple[GatewayMethod, ...] = (
    GatewayMethod("node.list", READ, NoParams, list_nodes),
    GatewayMethod("node.describe", READ, NodeParams, describe_node),
    GatewayMethod("node.rename", PAIRING, NodeRenameParams, rename_node),
    GatewayMethod("node.pair.list", PAIRING, NoParams, list_node_pairs),
    GatewayMethod("node.pair.request", PAIRING, NodePairParams, request_node_pairing),
    GatewayMethod("node.pair.approve", PAIRING, NodeApproveParams, approve_node),
    GatewayMethod("node.pair.reject", PAIRING, NodeRequestIdParams, reject_node),
    GatewayMethod("node.pair.remove", PAIRING, NodeParams, remove_node),
    GatewayMethod("node.pair.verify", PAIRING, NodeVerifyParams, verify_node),
    GatewayMethod("device.pair.setupCode", ADMIN, SetupCodeParams, make_setup_code, write=True, listed=False),
    GatewayMethod("node.invoke", WRITE, NodeInvokeParams, invoke_node),
    GatewayMethod("node.invoke.result", NODE, NodeResultParams, take_node_result),
    GatewayMethod("node.event", NODE, NodeEventParams, take_node_event),
    GatewayMethod("node.pending.enqueue", WRITE, PendingEnqueueParams, enqueue_for_node),
    GatewayMethod("node.pending.drain", NODE, PendingDrainParams, drain_for_node),
    GatewayMethod("node.pending.pull", NODE, NoParams, pull_for_node),
    GatewayMethod("node.pending.ack", NODE, PendingAckParams, acknowledge_for_node),
    GatewayMethod("skills.bins", NODE, NoParams, list_skill_programs),
)
