"""push.*: notices to browsers that are not looking: a question waits, a run is over.

The vendor of a browser gets an empty message and a signature, nothing else; the browser's worker then asks this gateway
what it is (`GET /push/news`, with a secret of its own that opens nothing else). A subscription is part of its device's
row and goes with it. After kill -9 subscriptions are there; what the last notices said is not, and the worker says so.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import os
import secrets
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

from aiohttp.web_response import Response
from msgspec import Meta

from palinurus.core.text import cut_line
from palinurus.core.types.caller import APPROVALS, has_scope
from palinurus.core.types.events import AgentEnd, RunEvent
from palinurus.core.types.inbound import Inbound
from palinurus.core.types.messages import AssistantMessage
from palinurus.core.vapid import make_signing_key, show_public_key, sign_vapid_token
from palinurus.files import read_plain_file, write_whole_file
from palinurus.gateway import http
from palinurus.gateway.http import HttpFault, RouteRequest
from palinurus.gateway.rpc import READ, GatewayMethod, MethodCall, MethodError, MethodParams, NonEmpty, NoParams
from palinurus.gateway.ws.devicerow import PairedDevice, PushPlace
from palinurus.tasks import TaskSet
from palinurus.tools.web.egress import EgressGuard, FetchFailure, FetchLimits, FetchRequest

if TYPE_CHECKING:
    from palinurus.gateway.clients import GatewayClients
    from palinurus.services.approvals import ApprovalRow

log = logging.getLogger(__name__)
KEY = os.path.join("gateway", "push.key")
SUBJECT = "mailto:palinurus@localhost"  # whom a vendor would write to
LIMITS = FetchLimits(size=10_000, time=15.0, redirects=0)
KEPT = 20  # notices of a device that its worker has not asked for
SHOWN = 140  # characters of an answer
GONE = (404, 410)  # the browser does not want them any more
SEEN = frozenset({"webchat", "gateway"})  # runs that were begun on the page
DAY = 24 * 3600


class PushNotices:
    """Who is told what. Made when the first device subscribes, or at the start where one has."""

    def __init__(self, gateway: GatewayClients) -> None:
        self._gateway = gateway
        self._notes: dict[str, deque[dict[str, Any]]] = {}
        self._runs: OrderedDict[str, tuple[str, str]] = OrderedDict()  # by inbox id: session, channel
        self._tokens: dict[str, tuple[str, int]] = {}  # by vendor, and until when
        self._key = 0
        self.tasks = TaskSet("a notice")
        self._guard = EgressGuard(gateway.settings.web.fetch.rules)
        self.unfollow = gateway.host.follow(self)
        program = gateway.host.program
        if program is not None and program.approvals is not None:
            program.approvals.watch(self._asked)

    @property
    def key(self) -> int:
        """Ours; made once, readable by nobody else."""
        if not self._key:
            path = os.path.join(self._gateway.settings.home, KEY)
            try:
                self._key = int(read_plain_file(path, 200), 16)
            except (OSError, ValueError):
                self._key = make_signing_key(secrets.token_bytes(40))
                os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
                write_whole_file(path, f"{self._key:064x}".encode(), mode=0o600)
        return self._key

    # --- what happens -----------------------------------------------------------------------------------------------

    def _asked(self, what: str, row: ApprovalRow) -> None:
        if what != "requested":
            return
        note = {"kind": "approval", "id": row.id, "sessionKey": row.ask.session, "title": row.ask.title}
        for device in self._wanting():
            if has_scope(device.scopes, APPROVALS):
                self.notify(device, note)

    def on_accepted(self, item: str, session: str, inbound: Inbound) -> None:
        """Remember where a run was begun."""
        self._runs[item] = (session, inbound.target.channel)
        while len(self._runs) > 1000:
            self._runs.popitem(last=False)

    on_started = on_accepted

    def on_event(self, item: str, event: RunEvent) -> None:
        """A run of the page is over: devices that are not connected hear of it."""
        if not isinstance(event, AgentEnd):
            return
        session, channel = self._runs.pop(item, ("", ""))
        if channel not in SEEN or not (wanting := self._wanting()):
            return
        here = {client.caller.device for client in self._gateway.clients()}
        said = [m.text for m in event.messages if isinstance(m, AssistantMessage)]
        body = cut_line(said[-1] if said else "", SHOWN)
        note = {"kind": "failed" if event.failure is not None else "done", "id": item, "sessionKey": session}
        for device in wanting:
            if device.device_id not in here and has_scope(device.scopes, READ):
                self.notify(device, {**note, "body": body})

    def on_merged(self, item: str, into: str) -> None:
        """It ends with another."""
        self._runs.pop(item, None)

    def on_ended(self, item: str) -> None:
        """Nothing more to tell."""
        self._runs.pop(item, None)

    def _wanting(self) -> list[PairedDevice]:
        return [one for one in self._gateway.pairing.devices() if one.push is not None and not one.blocked]

    # --- telling ----------------------------------------------------------------------------------------------------

    def notify(self, device: PairedDevice, note: dict[str, Any]) -> None:
        """Knock; what it is waits for the worker."""
        kept = self._notes.setdefault(device.device_id, deque(maxlen=KEPT))
        kept.append({**note, "at": self._gateway.clock.now()})
        self.tasks.start(self.knock(device))

    async def knock(self, device: PairedDevice) -> str:
        """Why the vendor did not take it; "" if it did. A subscription that is over is forgotten."""
        place = device.push
        if place is None:
            return "not subscribed"
        key, token = await asyncio.to_thread(self._sign, place.endpoint)
        headers = {"Authorization": f"vapid t={token}, k={show_public_key(key)}", "TTL": str(DAY), "Urgency": "high"}
        try:
            got = await self._guard.get(FetchRequest(place.endpoint, headers, b""), LIMITS)
        except FetchFailure as error:
            log.info("a notice could not be sent: %s", error)
            return str(error)
        if got.status in GONE:
            await self._forget(device.device_id, place)
        return "" if got.status < 300 else f"HTTP {got.status}"

    def _sign(self, endpoint: str) -> tuple[int, str]:
        at = urlsplit(endpoint)
        origin, now = f"{at.scheme}://{at.netloc}", self._gateway.clock.now() // 1000
        token, until = self._tokens.get(origin, ("", 0))
        if until < now:
            token = sign_vapid_token(self.key, origin, SUBJECT, now)
            self._tokens[origin] = (token, now + DAY // 4)
        return self.key, token

    async def _forget(self, ident: str, place: PushPlace) -> None:
        now = self._gateway.pairing.device(ident)
        if now is not None and now.push == place:
            await self._gateway.pairing.amend(ident, now.scopes, push=None)

    def take(self, secret: str) -> list[dict[str, Any]] | None:
        """What waits for the device whose worker has this secret; None: nobody has."""
        digest = _digest(secret)
        for device in self._wanting():
            if device.push is not None and hmac.compare_digest(device.push.digest, digest):
                return list(self._notes.pop(device.device_id, ()))
        return None


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


async def serve_push_news(visit: RouteRequest) -> Response | HttpFault:
    """GET /push/news: for a browser's worker, with the secret that it got when it subscribed."""
    word, _, secret = visit.request.headers.get("Authorization", "").partition(" ")
    notes = visit.gateway.clients.open_push().take(secret.strip()) if word.lower() == "bearer" and secret else None
    if notes is None:
        return HttpFault(401, "this browser is not subscribed", "unauthorized", code="unauthorized")
    return http.reply_json({"notes": notes})


# --- methods --------------------------------------------------------------------------------------------------------


class PushSubscribeParams(MethodParams, frozen=True):
    endpoint: Annotated[str, Meta(min_length=10, max_length=2048)]


async def get_push_key(call: MethodCall, asked: NoParams) -> dict[str, Any]:
    """What a browser subscribes with; whether this device has."""
    device = call.gateway.pairing.device(call.client.caller.device or "")
    notices = call.gateway.open_push()
    key = await asyncio.to_thread(lambda: show_public_key(notices.key))
    return {"publicKey": key, "subscribed": device is not None and device.push is not None}


async def subscribe_push(call: MethodCall, asked: PushSubscribeParams) -> dict[str, Any]:
    """Notify this very device from now on. The secret is told once; it opens its own notices and nothing else."""
    at = urlsplit(asked.endpoint)
    if at.scheme not in ("https", "http") or not at.hostname:
        raise MethodError("that is no address of a push service")
    secret = secrets.token_urlsafe(32)
    await _amend(call, PushPlace(asked.endpoint, _digest(secret)))
    call.gateway.open_push()
    return {"secret": secret}


async def unsubscribe_push(call: MethodCall, asked: NoParams) -> dict[str, Any]:
    """No more notices for this device."""
    await _amend(call, None)
    return {"ok": True}


async def try_push(call: MethodCall, asked: NoParams) -> dict[str, Any]:
    """One notice to this device, to see whether it comes."""
    device = call.gateway.pairing.device(call.client.caller.device or "")
    if device is None or device.push is None:
        raise MethodError("this browser is not subscribed")
    problem = await call.gateway.open_push().knock(device)
    return {"ok": not problem, **({"problem": problem} if problem else {})}


async def _amend(call: MethodCall, place: PushPlace | None) -> None:
    ident: NonEmpty | None = call.client.caller.device
    if not ident:
        raise MethodError("only a paired device can be notified: open the page over https, or on localhost")
    await call.gateway.pairing.amend(ident, call.client.caller.scopes, push=place)


METHODS: tuple[GatewayMethod, ...] = (
    GatewayMethod("push.key", READ, NoParams, get_push_key),
    GatewayMethod("push.subscribe", READ, PushSubscribeParams, subscribe_push),
    GatewayMethod("push.unsubscribe", READ, NoParams, unsubscribe_push),
    GatewayMethod("push.try", READ, NoParams, try_push),
)
