"""Nodes that are connected, and what is asked of them. One per process; the gateway brings the wires (`attach`).

An answer counts only from the connection that was asked (a node cannot answer for another). When the node goes, when
time is up or when the asker is stopped, the outcome is unknown; the node is told to end the command where it can.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from palinurus.clock import Clock
from palinurus.config.sections.gateway import NodeSettings
from palinurus.core.policy import nodes as policy
from palinurus.core.policy.nodes import NodeRules
from palinurus.core.types.node import CONTAINED, RUN, NodeAnswer, NodeOrder, NodeView
from palinurus.errors import BadRequest, NotFound
from palinurus.services.nodes.calls import NodeCalls, make_unknown
from palinurus.services.nodes.pairing import NodeFacts, NodePairing, clean_facts
from palinurus.services.nodes.pending import PendingItems
from palinurus.store.records import RecordStore

log = logging.getLogger(__name__)

OWNER = ("operator.admin",)
# What callers may not say themselves: whether a person agreed is known here alone.
RESERVED = frozenset(("approved", "approvalDecision", "systemRunPlan", "runId"))


PREPARE, PREPARE_SECONDS = "system.run.prepare", 15.0
DENIED = "SYSTEM_RUN_DENIED"  # how a node says that it did not start a command
QUEUED = "QUEUED_UNTIL_FOREGROUND"
NOT_SENT = NodeAnswer(False, None, "UNAVAILABLE", "node not connected")


class NodeWires(Protocol):
    """The gateway, as far as nodes need it."""

    def send(self, conn: str, event: str, payload: Any) -> bool:
        """To one connection; False if it is gone."""
        ...

    def broadcast(self, event: str, payload: Any) -> None:
        """To every operator who may see it."""
        ...

    def disconnect(self, *, conn: str | None = None, reason: str = "") -> int:
        """End a connection at once."""
        ...


class LiveNode(msgspec.Struct, frozen=True):
    """A node on its connection."""

    conn: str
    facts: NodeFacts
    at: int  # since when
    address: str = ""


class _Pending(msgspec.Struct, frozen=True):
    """An order that was sent."""

    order: NodeOrder
    conn: str
    run: str
    answer: asyncio.Future[NodeAnswer]


class NodeBoard:
    """Implements `core.types.node.NodesPort`. `changed` is told when a node was paired or is no longer."""

    def __init__(
        self, settings: NodeSettings, store: RecordStore, clock: Clock, changed: Callable[[], None] = lambda: None
    ) -> None:
        self._rules = NodeRules(settings.allow, settings.deny)
        self._clock = clock
        self._wires: NodeWires | None = None
        self._live: dict[str, LiveNode] = {}  # by node
        self._pending: dict[str, _Pending] = {}  # by the id that the node was told
        self._calls = NodeCalls(store, clock)
        self._same: dict[str, asyncio.Future[NodeAnswer]] = {}  # by key: the same order asked twice at once
        self.pending = PendingItems(store, clock)
        self.pairing = NodePairing(store, clock, self._say, closed=self._close, changed=changed)

    def attach(self, wires: NodeWires) -> None:
        """From now on through this gateway."""
        self._wires = wires

    # who is there

    def join(self, conn: str, facts: NodeFacts, at: int, address: str = "") -> None:
        """It is connected. A second connection of the same node ends the first."""
        live = LiveNode(conn, clean_facts(facts), at, address)
        before = self._live.get(live.facts.node_id)
        self._live[live.facts.node_id] = live
        if before is not None and self._wires is not None:
            self._wires.disconnect(conn=before.conn, reason="the node has connected again")

    def leave(self, conn: str) -> None:
        """It is gone: nobody knows what became of what it was asked."""
        for ident in [ident for ident, live in self._live.items() if live.conn == conn]:
            del self._live[ident]
        for pending in [p for p in self._pending.values() if p.conn == conn]:
            self._settle(pending, make_unknown(f"node disconnected ({pending.order.command})"))

    def live(self, ident: str) -> LiveNode | None:
        """Its connection, if it has one."""
        return self._live.get(ident)

    def views(self) -> list[NodeView]:
        paired = [node.node_id for node in self.pairing.nodes()]
        return [self.view(ident) for ident in dict.fromkeys((*paired, *self._live))]

    def view(self, ident: str) -> NodeView:
        """One node as it stands."""
        node, live = self.pairing.node(ident), self._live.get(ident)
        facts = live.facts if live is not None else node or NodeFacts(ident)
        agreed = node.commands if node is not None else ()
        return NodeView(
            ident,
            (node.name if node is not None else "") or facts.display_name,
            facts.platform,
            tuple(policy.list_callable(facts.commands, agreed, facts.platform, self._rules)),
            paired=node is not None,
            connected=live is not None,
            contained=facts.permissions.get(CONTAINED) is True,
        )

    def find(self, wanted: str) -> NodeView:
        return policy.choose_node(self.views(), wanted)

    def waiting(self) -> list[dict[str, Any]]:
        return [request.describe() for request in self.pairing.requests()]

    async def decide(self, request: str, yes: bool) -> str:
        found = [r.request_id for r in self.pairing.requests() if request and r.request_id.startswith(request)]
        if len(found) != 1:
            raise NotFound(f"there is no request {request[:40]!r}")
        done = await (self.pairing.approve(found[0], OWNER) if yes else self.pairing.reject(found[0]))
        return done.node_id

    def describe(self, ident: str) -> dict[str, Any]:
        """A node as clients see it."""
        view, node, live = self.view(ident), self.pairing.node(ident), self._live.get(ident)
        facts = live.facts if live is not None else node or NodeFacts(ident)
        seen = live.at if live is not None else node.last_seen_at_ms if node is not None else 0
        shown = {
            "nodeId": ident,
            "displayName": view.name,
            "platform": facts.platform,
            "version": facts.version,
            "clientId": facts.client_id,
            "clientMode": facts.client_mode,
            "deviceFamily": facts.device_family,
            "remoteIp": live.address if live is not None else "",
            "permissions": facts.permissions,
            "connectedAtMs": live.at if live is not None else 0,
            "lastSeenAtMs": seen,
            "lastSeenReason": "connect" if seen else "",
            "approvedAtMs": node.approved_at_ms if node is not None else 0,
        }
        told = {name: value for name, value in shown.items() if value}
        state = {"paired": view.paired, "connected": view.connected}
        return {**told, "caps": facts.caps, "commands": view.commands, **state}

    # asking

    def refuse(self, ident: str, command: str) -> NodeAnswer | None:
        """Why the node is not asked; None if it is. Nothing was sent then."""
        view, live = self.view(ident), self._live.get(ident)
        node = self.pairing.node(ident)
        if node is None:
            return NodeAnswer(False, None, "NOT_PAIRED", "node is not paired")
        offered = live.facts.commands if live is not None else node.commands
        why = policy.explain_refused_command(command, (live.facts if live else node).platform, self._rules)
        if not why and command not in offered:
            why = f'"{command}" is not offered by the node'
        if not why and command not in node.commands:
            why = f'"{command}" was not approved for this node'
        if why:
            return NodeAnswer(False, None, "INVALID_REQUEST", f"node command not allowed: {why}")
        return None if view.connected else NOT_SENT

    async def invoke(self, order: NodeOrder) -> NodeAnswer:
        order = msgspec.structs.replace(
            order, params={k: v for k, v in order.params.items() if k not in RESERVED or order.command != RUN}
        )
        if (same := self._same.get(order.key)) is not None:
            return await asyncio.shield(same)
        if (refused := self.refuse(order.node, order.command)) is not None:
            return refused
        future = self._same[order.key] = asyncio.get_running_loop().create_future()
        answer = make_unknown("the caller was stopped")
        try:
            answer = await self._send(order)
        except BadRequest as error:
            answer = NodeAnswer(False, None, "INVALID_REQUEST", error.message)
        finally:
            del self._same[order.key]
            future.set_result(answer)
        return answer

    async def _send(self, order: NodeOrder) -> NodeAnswer:
        if (before := await self._calls.begin(order)) is not None:
            return before
        plans = order.command == RUN and PREPARE in self.view(order.node).commands
        first = msgspec.structs.replace(order, approved=None) if plans else order
        answer = await self._exchange(first, order.command, order.params)
        if plans and order.approved and DENIED in answer.message:  # it did not run: that node wants a person's word
            params = await self._prepare(order)
            answer = params if isinstance(params, NodeAnswer) else await self._exchange(order, RUN, params)
        if policy.waits_for_front(order.command, self.view(order.node).platform, answer):
            item = await self.pending.add_action(order)
            told = {"queuedActionId": item.id, "nodeError": {"code": answer.code, "message": answer.message}}
            answer = NodeAnswer(False, told, QUEUED, "node command queued until iOS returns to foreground")
        if answer == NOT_SENT:
            await self._calls.forget(order)
        else:
            await self._calls.end(order, answer)
        return answer

    async def _prepare(self, order: NodeOrder) -> Mapping[str, Any] | NodeAnswer:
        """A node that keeps to plans makes one of the command; it must be the command that a person agreed to."""
        known = ("command", "rawCommand", "cwd", "env", "agentId", "sessionKey")
        asked = {name: order.params[name] for name in known if name in order.params}
        short = msgspec.structs.replace(order, timeout=PREPARE_SECONDS)
        answer = await self._exchange(short, PREPARE, asked)
        plan = answer.payload.get("plan") if answer.ok and isinstance(answer.payload, dict) else None
        if not isinstance(plan, dict):
            return NodeAnswer(False, None, answer.code or "UNAVAILABLE", answer.message or "the node made no plan")
        if list(plan.get("argv") or ()) != list(order.params.get("command") or ()):
            return NodeAnswer(
                False, None, "UNAVAILABLE", "not run: the node would run something else than was approved"
            )
        found = {name: plan[name] for name in ("cwd", "agentId", "sessionKey") if plan.get(name) is not None}
        return {**order.params, **found, "rawCommand": plan.get("commandText"), "systemRunPlan": plan}

    async def _exchange(self, order: NodeOrder, command: str, params: Mapping[str, Any]) -> NodeAnswer:
        """Send it and wait. Whatever ends the wait besides an answer leaves the outcome unknown."""
        live, wires = self._live.get(order.node), self._wires
        run, ident = str(uuid.uuid4()), str(uuid.uuid4())
        pending = _Pending(order, live.conn if live else "", run, asyncio.get_running_loop().create_future())
        self._pending[ident] = pending
        try:
            told = make_request(order, ident, command, params, run=run)
            if live is None or wires is None or not wires.send(live.conn, "node.invoke.request", told):
                return NOT_SENT
            await asyncio.wait({pending.answer}, timeout=order.timeout)
            if not pending.answer.done():
                self._cancel(ident, pending)
                return make_unknown(f"node invoke timed out after {order.timeout:g} s")
            return pending.answer.result()
        except asyncio.CancelledError:
            self._cancel(ident, pending)
            raise
        finally:
            self._pending.pop(ident, None)

    def _cancel(self, ident: str, pending: _Pending) -> None:
        """Have the node end it. Nodes that do not know the word keep to the time-out that they were told."""
        if self._wires is not None and not pending.answer.done():
            self._wires.send(pending.conn, "node.invoke.cancel", {"invokeId": ident, "nodeId": pending.order.node})

    # what nodes say

    def take_answer(self, conn: str, node: str, ident: str, answer: NodeAnswer) -> bool:
        """From the connection that was asked, for an order that waits. False for all else: dropped, and logged."""
        pending = self._pending.get(ident)
        if pending is None or pending.conn != conn or pending.order.node != node:
            log.warning("node %s answered what it was not asked (%s)", node[:12], ident[:36])
            return False
        self._settle(pending, answer)
        return True

    def take_event(self, conn: str, event: str, payload: Any) -> tuple[bool, str]:
        """Something that happened there: is it one we know, and what became of it. Only a paired node is heard, and of
        commands only those that it was asked to run."""
        live = next((live for live in self._live.values() if live.conn == conn), None)
        if live is None or self.pairing.node(live.facts.node_id) is None:
            return False, "not paired"
        if event == "node.presence.alive":
            return True, "persisted"
        if event not in ("exec.started", "exec.finished", "exec.denied"):
            return False, "unsupported_event"
        run = payload.get("runId") if isinstance(payload, dict) else None
        if not any(pending.run == run and pending.conn == conn for pending in self._pending.values()):
            return False, "unknown_run"
        told = {"nodeId": live.facts.node_id, "event": event, "runId": run}
        self._say("node.event", {**told, "exitCode": payload.get("exitCode"), "ts": self._clock.now()})
        return True, "forwarded"

    # inside

    @staticmethod
    def _settle(pending: _Pending, answer: NodeAnswer) -> None:
        if not pending.answer.done():
            pending.answer.set_result(answer)

    def _say(self, event: str, payload: Mapping[str, Any]) -> None:
        if self._wires is not None:
            self._wires.broadcast(event, payload)

    def _close(self, ident: str) -> None:
        live = self._live.get(ident)
        if live is not None and self._wires is not None:
            self._wires.disconnect(conn=live.conn, reason="node access revoked")


def make_request(order: NodeOrder, ident: str, command: str, params: Mapping[str, Any], *, run: str) -> dict[str, Any]:
    """The payload of node.invoke.request."""
    told = dict(params)
    if command == RUN:
        told |= {"runId": run, "suppressNotifyOnExit": True}
        told |= {"approved": True, "approvalDecision": order.approved} if order.approved else {}
    return {
        "id": ident,
        "nodeId": order.node,
        "command": command,
        "paramsJSON": msgspec.json.encode(told).decode(),
        "timeoutMs": int(order.timeout * 1000),
        "idempotencyKey": f"{order.key}:{command}",
    }
