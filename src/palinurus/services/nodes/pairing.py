"""Paired nodes: who asked, who was approved for which commands, their tokens, and codes with which one pairs itself.

Rows of the store are the truth; a copy in memory answers at once. Tokens and codes are kept as digests only. What was
taken away is gone when the call returns, and `closed` is told. After kill -9 every row is as the last call that
returned left it; a code that was used is gone before its node hears of it.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import uuid
from collections.abc import Callable, Collection, Iterable
from typing import Any

import msgspec
from msgspec.structs import replace

from palinurus.clock import Clock
from palinurus.core.policy.nodes import list_approver_scopes
from palinurus.core.untrusted import clean_label
from palinurus.errors import BadRequest, NotFound, Unauthorized
from palinurus.store.records import Records, RecordStore

NODE, REQUEST, CODE = "node", "node-request", "node-code"  # kinds of records
WAITING = 64  # requests that may wait for a person
EXPIRES_MS = 24 * 3600 * 1000
CODE_MS = 10 * 60 * 1000
SEEN_MS = 3600 * 1000  # how old `lastSeenAtMs` on disk may get
SHORT = 16  # letters of a digest that name a code
MOST = 128  # commands, capabilities and permissions that are looked at


class NodeFacts(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What a node says of itself. Names are cleaned: people read them before they say yes."""

    node_id: str
    platform: str = ""
    display_name: str = ""
    version: str = ""
    client_id: str = ""
    client_mode: str = ""
    device_family: str = ""
    caps: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    permissions: dict[str, bool] = {}


class PairedNode(NodeFacts, frozen=True, kw_only=True):
    """A node that was approved; `commands` are those a person agreed to, `name` what they call it instead. `blocked`:
    its access was taken away, and only a person can give it back."""

    name: str = ""
    created_at_ms: int = 0
    approved_at_ms: int = 0
    last_seen_at_ms: int = 0
    digest: str = ""
    blocked: bool = False


class NodeRequest(NodeFacts, frozen=True, kw_only=True):
    """A node that waits for a person's yes. Also what clients are shown."""

    request_id: str
    ts: int
    is_repair: bool = False
    silent: bool = False

    def describe(self) -> dict[str, Any]:
        """As clients see it."""
        shown: dict[str, Any] = {"caps": [], "commands": [], "silent": False, **msgspec.to_builtins(self)}
        return shown | {"requiredApproveScopes": list(list_approver_scopes(self.commands))}


class NodeCode(msgspec.Struct, frozen=True):
    """A code that pairs whoever shows it first."""

    digest: str
    expires: int
    phone: bool = False  # its holder is an operator, too


class NodeAsked(Exception):
    """Not paired: a person was asked."""

    def __init__(self, request: NodeRequest) -> None:
        super().__init__("node is not approved yet")
        self.request = request


def clean_facts(facts: NodeFacts) -> NodeFacts:
    """With nothing in it that a card or a list could show as something else."""
    words: dict[str, Any] = {name: clean_label(getattr(facts, name), 64) for name in NodeFacts.__struct_fields__[1:7]}
    lists: dict[str, Any] = {
        name: tuple(clean_label(one, 64) for one in getattr(facts, name)[:MOST]) for name in ("caps", "commands")
    }
    given = {clean_label(name, 64): word for name, word in list(facts.permissions.items())[:MOST]}
    return NodeFacts(facts.node_id, **words, **lists, permissions=given)


class NodePairing:
    """All nodes and requests. `said(event, payload)` is called for what operators should hear, `closed(node)` when a
    node's live connection must end, `changed()` when one was paired or is no longer."""

    def __init__(
        self,
        store: RecordStore,
        clock: Clock,
        said: Callable[[str, Any], None],
        closed: Callable[[str], None],
        changed: Callable[[], None],
    ) -> None:
        self._node_records = Records(store, NODE, PairedNode)
        self._request_records = Records(store, REQUEST, NodeRequest)
        self._code_records = Records(store, CODE, NodeCode)
        self._clock, self._said, self._closed, self._changed = clock, said, closed, changed
        self._nodes: dict[str, PairedNode] = {}
        self._requests: dict[str, NodeRequest] = {}
        self._codes: dict[str, NodeCode] = {}
        self._turn = asyncio.Lock()  # one change at a time: nobody gives back what another takes away
        self.taken = 0  # goes up whenever something is taken away

    async def load(self) -> None:
        """Read the rows. One that cannot be understood is left out: it then grants nothing."""
        self._nodes = await self._node_records.all()
        self._requests = await self._request_records.all()
        self._codes = await self._code_records.all()

    async def reread(self, ident: str) -> None:
        """Another gateway of this state has changed a node."""
        async with self._turn:
            old, now = self._nodes.get(ident), await self._node_records.get(ident)
            if now is None or now == old:
                return
            self._nodes[ident] = now
            if now.blocked or (old is not None and old.digest != now.digest):
                self._cut(ident)
            self._changed()

    # looking

    def node(self, ident: str) -> PairedNode | None:
        """One that is paired."""
        found = self._nodes.get(ident)
        return None if found is None or found.blocked else found

    def is_blocked(self, ident: str) -> bool:
        """Was its access taken away?"""
        found = self._nodes.get(ident)
        return found is not None and found.blocked

    def nodes(self) -> list[PairedNode]:
        """Every paired node, newest first."""
        return sorted((n for n in self._nodes.values() if not n.blocked), key=lambda n: -n.approved_at_ms)

    def requests(self) -> list[NodeRequest]:
        """Every request that still waits, newest first."""
        since = self._clock.now() - EXPIRES_MS
        return sorted((r for r in self._requests.values() if r.ts > since), key=lambda r: -r.ts)

    def holds(self, ident: str, token: str) -> bool:
        """Is this the node's token, in force?"""
        node = self.node(ident)
        return node is not None and bool(node.digest) and secrets.compare_digest(node.digest, digest_token(token))

    def find_code(self, token: str) -> NodeCode | None:
        """The code, if it can still be used."""
        found = self._codes.get(digest_token(token)[:SHORT]) if token else None
        same = found is not None and secrets.compare_digest(found.digest, digest_token(token))
        return found if found is not None and same and found.expires > self._clock.now() else None

    def find_proof_key(self, what: str) -> str:
        """The key with which the gateway proves itself to one that holds this node's token ("node:ID") or a code
        ("code:NAME"): both know its digest, nobody else does. "" for what is not known."""
        kind, _, name = what.partition(":")
        if kind == "node":  # one that was sent away, too: it has to believe us that it was
            node = self._nodes.get(name)
            return node.digest if node is not None else ""
        code = self._codes.get(name) if kind == "code" else None
        return code.digest if code is not None and code.expires > self._clock.now() else ""

    # coming in

    async def make_code(self, *, phone: bool = False) -> tuple[str, int]:
        """A code for one node, and when it ends. It pairs the node with all that it offers."""
        async with self._turn:
            now = self._clock.now()
            for name in [name for name, code in self._codes.items() if code.expires <= now]:
                del self._codes[name]
                await self._code_records.drop(name)
            token = secrets.token_urlsafe(32)
            code = NodeCode(digest_token(token), now + CODE_MS, phone)
            await self._code_records.put(code.digest[:SHORT], code)
            self._codes[code.digest[:SHORT]] = code
            return token, code.expires

    async def admit(self, facts: NodeFacts, how: str, code: str = "") -> tuple[PairedNode | None, str]:
        """A node that proved itself: the paired node (None: it may connect, and nothing is asked of it yet) and a
        token if it needs one. Raises NodeAsked where it was sent away once, Unauthorized for a code that was used."""
        facts = clean_facts(facts)
        async with self._turn:
            if how == "code":
                await self._use_code(code)
                node, token = self._issue(self._merge(facts, facts.commands))
                await self._save(node)
                await self._drop_requests(node.node_id)
                self._resolved(node.node_id, "", "approved")
                return node, token
            known = self._nodes.get(facts.node_id)
            if known is not None and known.blocked:
                raise NodeAsked(await self._ask(facts))
            if known is None or not set(facts.commands) <= set(known.commands):
                await self._ask(facts)
            if known is None:
                return None, ""
            node, token = self._issue(known) if how != "device" and not known.digest else (known, "")
            node = replace(node, version=facts.version, permissions=facts.permissions, caps=facts.caps)
            fresh = node.last_seen_at_ms < self._clock.now() - SEEN_MS
            node = replace(node, last_seen_at_ms=self._clock.now()) if fresh else node
            if node != known:
                await self._save(node)
            return node, token

    async def request(self, facts: NodeFacts) -> tuple[NodeRequest, bool]:
        """Somebody asks for a node that is not here (yet); False: that request was there."""
        async with self._turn:
            before = set(self._requests)
            made = await self._ask(clean_facts(facts))
            return made, made.request_id not in before

    async def _use_code(self, token: str) -> None:
        code = self.find_code(token)
        name = code.digest[:SHORT] if code is not None else ""
        if code is None or not await self._code_records.swap(name, code, None):
            raise Unauthorized("the code is not valid any more", fix="`pal nodes pair` makes another")
        self._codes.pop(name, None)

    async def _ask(self, facts: NodeFacts) -> NodeRequest:
        """A request for a person. The same wish twice is one request."""
        for request in self.requests():
            if request.node_id != facts.node_id:
                continue
            if (request.commands, request.caps) == (facts.commands, facts.caps):
                return request
            await self._forget(request)
        waiting = self.requests()
        if len(waiting) >= WAITING:
            await self._forget(waiting[-1])
        said = {name: getattr(facts, name) for name in NodeFacts.__struct_fields__}
        repair = facts.node_id in self._nodes
        request = NodeRequest(request_id=str(uuid.uuid4()), ts=self._clock.now(), is_repair=repair, **said)
        await self._request_records.put(request.request_id, request)
        self._requests[request.request_id] = request
        self._said("node.pair.requested", request.describe())
        return request

    # deciding

    async def approve(self, request_id: str, by: Collection[str], only: Iterable[str] | None = None) -> PairedNode:
        """Say yes, to `only` these commands if they are named. Raises NotFound, Unauthorized where the approver has
        not the scopes that takes."""
        async with self._turn:
            request = self._find_request(request_id)
            agreed = request.commands if only is None else tuple(c for c in request.commands if c in set(only))
            for scope in list_approver_scopes(agreed):
                if scope not in by and "operator.admin" not in by:
                    raise Unauthorized(f"missing scope: {scope}")
            node = self._merge(request, agreed)
            await self._save(node)
            await self._forget(request)
            self._resolved(node.node_id, request_id, "approved")
            return node

    async def reject(self, request_id: str) -> NodeRequest:
        """Say no. Raises NotFound."""
        async with self._turn:
            request = self._find_request(request_id)
            await self._forget(request)
            self._resolved(request.node_id, request_id, "rejected")
            return request

    async def remove(self, ident: str) -> None:
        """Take a node's access away: its connection ends now, its token is dead, and coming back needs a yes.
        Raises NotFound."""
        async with self._turn:
            node = self.node(ident)
            if node is None:
                raise NotFound("unknown nodeId")
            await self._save(replace(node, blocked=True, commands=()))
            await self._drop_requests(ident)
            self._cut(ident)

    async def rename(self, ident: str, name: str) -> PairedNode:
        """What people call it from now on. Raises NotFound, BadRequest."""
        async with self._turn:
            node, word = self.node(ident), clean_label(name, 64)
            if node is None:
                raise NotFound("unknown nodeId")
            if not word or any(word.lower() == other.name.lower() for other in self.nodes() if other is not node):
                raise BadRequest(f"{word!r} cannot be its name" if not word else f"another node is called {word!r}")
            node = replace(node, name=word)
            await self._save(node)
            return node

    # inside

    def _merge(self, facts: NodeFacts, agreed: tuple[str, ...]) -> PairedNode:
        now, known = self._clock.now(), self._nodes.get(facts.node_id)
        said: dict[str, Any] = {name: getattr(facts, name) for name in NodeFacts.__struct_fields__}
        token = "" if known is None or known.blocked else known.digest  # a token that was taken away stays dead
        kept: dict[str, Any] = {} if known is None else {"name": known.name, "digest": token}
        made = now if known is None else known.created_at_ms
        said["commands"] = agreed
        return PairedNode(**said, **kept, created_at_ms=made, approved_at_ms=now, last_seen_at_ms=now)

    @staticmethod
    def _issue(node: PairedNode) -> tuple[PairedNode, str]:
        token = secrets.token_urlsafe(32)
        return replace(node, digest=digest_token(token)), token

    async def _save(self, node: PairedNode) -> None:
        """What is taken away is gone before the row is written, what is given is there after it."""
        old = self._nodes.get(node.node_id)
        if node.blocked:
            self._nodes[node.node_id] = node

        def write(kept: PairedNode | None) -> PairedNode:
            if kept != old:
                raise BadRequest("the node was changed meanwhile; ask again")
            return node

        await self._node_records.update(node.node_id, write)
        self._nodes[node.node_id] = node
        self._changed()

    def _cut(self, ident: str) -> None:
        self.taken += 1
        self._closed(ident)

    async def _forget(self, request: NodeRequest) -> None:
        self._requests.pop(request.request_id, None)
        await self._request_records.drop(request.request_id)

    async def _drop_requests(self, ident: str) -> None:
        for request in [r for r in self._requests.values() if r.node_id == ident]:
            await self._forget(request)

    def _find_request(self, request_id: str) -> NodeRequest:
        found = next((request for request in self.requests() if request.request_id == request_id), None)
        if found is None:
            raise NotFound("unknown requestId")
        return found

    def _resolved(self, ident: str, request_id: str, decision: str) -> None:
        told = {"requestId": request_id, "nodeId": ident, "decision": decision, "ts": self._clock.now()}
        self._said("node.pair.resolved", told)


def digest_token(token: str) -> str:
    """What is kept of a token."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
