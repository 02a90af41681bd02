"""Paired devices: who asked, who was approved for what, and their tokens. Rows of the store are the truth (kinds
"device" and "pairing"); a copy in memory answers at once. A token is kept only as its digest.

Nobody may hand out more than they have. What was taken away is gone when the call returns, and `closed` is told.
After kill -9 every row is as the last call that returned left it.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
import uuid
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from msgspec.structs import replace

from palinurus.clock import Clock
from palinurus.core.types.caller import has_scope
from palinurus.gateway.auth import TokenHolder
from palinurus.gateway.rpc import MethodError
from palinurus.gateway.ws.devicerow import DevicePairingRequest, DeviceToken, PairedDevice
from palinurus.store.records import Records, RecordStore

T = TypeVar("T")

TRIES = 5  # of a login that others change at the same moment
DEVICE, REQUEST = "device", "pairing"  # kinds of records
WAITING = 64  # requests that may wait for a person
EXPIRES_MS = 24 * 3600 * 1000
PHONE = ("operator.approvals", "operator.read", "operator.write")  # what the app on a phone may that a code let in
SEEN_MS = 3600 * 1000  # how old `lastSeenAtMs` on disk may get


class DeviceChanged(MethodError):
    """Another node has written the device meanwhile. Nothing was changed."""


class DevicePairing:
    """All devices and requests. `said(event, payload)` is called for what others should hear, `closed(device)` when
    a device's live connections must end."""

    def __init__(
        self,
        store: RecordStore,
        clock: Clock,
        said: Callable[[str, Any], None] = lambda event, payload: None,
        closed: Callable[[str], None] = lambda device: None,
    ) -> None:
        self._device_records = Records(store, DEVICE, PairedDevice)
        self._request_records = Records(store, REQUEST, DevicePairingRequest)
        self._clock = clock
        self._said = said
        self._closed = closed
        self._devices: dict[str, PairedDevice] = {}
        self._requests: dict[str, DevicePairingRequest] = {}
        self._holders: dict[str, str] = {}  # digest -> device
        self._turn = asyncio.Lock()  # one change at a time: nobody gives back what another takes away
        self.taken = 0  # goes up whenever something is taken away

    async def load(self) -> None:
        """Read the rows. One that cannot be understood is left out: it then grants nothing."""
        for device in (await self._device_records.all()).values():
            self._know(device)
        self._requests = await self._request_records.all()

    async def reread(self, ident: str) -> None:
        """Another node has changed a device: what it took away is gone here, too, and its connections end."""
        async with self._turn:
            await self._refresh(ident)

    async def _refresh(self, ident: str) -> None:
        old, now = self._devices.get(ident), await self._device_records.get(ident)
        if now is None or now == old:
            return
        stay = () if now.blocked else tuple(token.digest for token in now.tokens)
        gone = [token.digest for token in (old.tokens if old else ()) if token.digest not in stay]
        for digest in gone:
            self._holders.pop(digest, None)
        self._know(now)
        if gone or now.blocked:
            self._cut(ident)

    async def _repeat(self, ident: str, change: Callable[[], Awaitable[T]]) -> T:
        """A login is no change that a person made: if another node writes the same device at that moment (the client of
        a fleet comes to several at once), it is judged anew by what is there then."""
        for _ in range(TRIES):
            try:
                return await change()
            except DeviceChanged:
                await self._refresh(ident)
        return await change()

    async def reread_request(self, ident: str) -> None:
        """Another node has put a request, or decided about it."""
        request = await self._request_records.get(ident)
        if request is None:
            self._requests.pop(ident, None)
        elif ident not in self._requests:
            self._requests[ident] = request
            self._said("device.pair.requested", request)

    def devices(self) -> list[PairedDevice]:
        """Every approved device, newest first."""
        known = (d for d in self._devices.values() if not d.blocked)
        return sorted(known, key=lambda d: d.approved_at_ms, reverse=True)

    def requests(self) -> list[DevicePairingRequest]:
        """Every request that still waits, newest first."""
        since = self._clock.now() - EXPIRES_MS
        return sorted((r for r in self._requests.values() if r.ts > since), key=lambda r: r.ts, reverse=True)

    def device(self, ident: str) -> PairedDevice | None:
        """One device, also a blocked one."""
        return self._devices.get(ident)

    def holder(self, token: str) -> TokenHolder | None:
        """Whose token this is, if it is in force."""
        digest = _digest(token)
        device = self._devices.get(self._holders.get(digest, ""))
        if device is None or device.blocked:
            return None
        for row in device.tokens:
            if row.digest and hmac.compare_digest(row.digest, digest):
                return TokenHolder(device.device_id, frozenset(row.scopes))
        return None

    async def enrol(self, fresh: PairedDevice, *, anew: bool = False) -> tuple[PairedDevice, str]:
        """A device that came with the shared secret or a code: known from now on with (at least) its scopes.

        Returns it and a new token ("" when the one it has opens all of this and it did not come `anew`).
        Raises MethodError if it is blocked.
        """
        async with self._turn:
            return await self._repeat(fresh.device_id, lambda: self._enrol(fresh, anew))

    async def _enrol(self, fresh: PairedDevice, anew: bool) -> tuple[PairedDevice, str]:
        known = self._devices.get(fresh.device_id)
        if known is not None and known.blocked:
            raise MethodError("device is not approved", code="NOT_PAIRED")
        device = fresh if known is None else replace(known, scopes=_union(known.scopes, fresh.scopes))
        row = _row(device, fresh.role)
        same = known is not None and device.scopes == known.scopes and not anew
        if same and row is not None and row.digest:
            await self._seen(device)
            return device, ""
        device, token = self._issued(device, fresh.role, device.scopes)
        device = replace(device, last_seen_at_ms=self._clock.now(), last_seen_reason="connect")
        await self._save(device)
        return device, token

    async def note_connected(self, ident: str) -> None:
        """It connected. Written at most once an hour."""
        async with self._turn:
            await self._repeat(ident, lambda: self._seen(self._devices.get(ident)))

    async def _seen(self, device: PairedDevice | None) -> None:
        if device is not None and (device.last_seen_at_ms or 0) < self._clock.now() - SEEN_MS:
            await self._save(replace(device, last_seen_at_ms=self._clock.now(), last_seen_reason="connect"))

    async def ask(self, fresh: PairedDevice) -> DevicePairingRequest:
        """A device wants what it has no right to: a request for a person. The same wish twice is one request."""
        async with self._turn:
            for request in self.requests():
                same = request.device_id == fresh.device_id and request.role == fresh.role
                if same and request.scopes == fresh.scopes:
                    return request
                if same:
                    await self._forget(request)
            waiting = self.requests()
            if len(waiting) >= WAITING:
                await self._forget(waiting[-1])
            request = DevicePairingRequest(
                str(uuid.uuid4()), **_facts(fresh), is_repair=fresh.device_id in self._devices, ts=self._clock.now()
            )
            self._requests[request.request_id] = request
            await self._request_records.put(request.request_id, request)
            self._said("device.pair.requested", request)
            return request

    async def approve(self, request_id: str, by: Iterable[str]) -> PairedDevice:
        """Say yes. Raises MethodError: no such request, or the approver has not all the scopes it would give."""
        async with self._turn:
            request = self._asked(request_id)
            _within(request.scopes, by)
            now = self._clock.now()
            known = self._devices.get(request.device_id)
            if known is None:
                device = PairedDevice(**_facts(request), created_at_ms=now, approved_at_ms=now)
            else:
                held = () if known.blocked else known.scopes
                scopes = _union(held, request.scopes)
                device = replace(known, scopes=scopes, approved_at_ms=now, blocked=False)
                tokens = tuple(replace(t, scopes=scopes) if t.role == request.role else t for t in device.tokens)
                device = replace(device, tokens=tokens)
            await self._save(device)
            await self._forget(request)
            self._resolved(request, "approved")
            return device

    async def reject(self, request_id: str) -> DevicePairingRequest:
        """Say no. Raises MethodError for an unknown request."""
        async with self._turn:
            request = self._asked(request_id)
            await self._forget(request)
            self._resolved(request, "rejected")
            return request

    async def remove(self, ident: str, by: Iterable[str]) -> None:
        """Take a device's access away: its connections end now, its token is dead, and coming back needs a yes.

        Raises MethodError: unknown, or it has more scopes than the caller.
        """
        async with self._turn:
            device = self._known(ident)
            _within(device.scopes, by)
            await self._save(replace(device, blocked=True, tokens=(), push=None))
            for request in [r for r in self._requests.values() if r.device_id == ident]:
                await self._forget(request)
            self._cut(ident)

    async def amend(self, ident: str, by: Iterable[str], **change: Any) -> PairedDevice:
        """Its name, or where it is notified. Raises MethodError."""
        async with self._turn:
            device = self._known(ident)
            _within(device.scopes, by)
            await self._save(replace(device, **change))
            return self._known(ident)

    async def revoke(self, ident: str, role: str, by: Iterable[str]) -> int:
        """Kill its token for a role and end its connections. Returns when. Raises MethodError."""
        async with self._turn:
            device = self._known(ident)
            _within(device.scopes, by)
            now = self._clock.now()
            row = _row(device, role)
            if row is None:
                raise MethodError("unknown deviceId/role")
            await self._save(_with(device, replace(row, digest="", revoked_at_ms=now)))
            self._cut(ident)
            return now

    async def rotate(
        self, ident: str, role: str, by: Iterable[str], *, own: bool, scopes: Iterable[str] | None = None
    ) -> tuple[DeviceToken, str]:
        """The old token dies and connections of the device end. `scopes` may only be fewer.

        `own`: the device itself asked and is told the new token. For anybody else it is "": the device gets one when
        it next logs in with the shared secret. Raises MethodError.
        """
        async with self._turn:
            device = self._known(ident)
            wanted = device.scopes if scopes is None else tuple(sorted(set(scopes)))
            if not all(has_scope(device.scopes, scope) for scope in wanted):
                raise MethodError("requested scopes exceed the approved ones")
            _within(device.scopes, by)
            if role not in device.roles:
                raise MethodError("unknown deviceId/role")
            device, token = self._issued(device, role, wanted)
            row = _row(device, role)
            assert row is not None
            if not own:
                row, token = replace(row, digest=""), ""
            await self._save(_with(device, row))
            self._cut(ident)
            return row, token

    def _issued(self, device: PairedDevice, role: str, scopes: tuple[str, ...]) -> tuple[PairedDevice, str]:
        token, now = secrets.token_urlsafe(32), self._clock.now()
        old = _row(device, role)
        created, rotated = (old.created_at_ms, now) if old else (now, None)
        return _with(device, DeviceToken(role, scopes, created, _digest(token), rotated_at_ms=rotated)), token

    async def _save(self, device: PairedDevice) -> None:
        """What is taken away is gone before the row is written, what is given is there after it."""
        old = self._devices.get(device.device_id)
        stay = () if device.blocked else tuple(row.digest for row in device.tokens)
        for row in old.tokens if old else ():
            if row.digest not in stay:
                self._holders.pop(row.digest, None)

        def write(kept: PairedDevice | None) -> PairedDevice:
            if kept != old:
                raise DeviceChanged("the device was changed meanwhile; ask again")
            return device

        await self._device_records.update(device.device_id, write)
        self._know(device)

    def _cut(self, ident: str) -> None:
        """Something was taken away: logins under way are judged again, live connections end."""
        self.taken += 1
        self._closed(ident)

    def _know(self, device: PairedDevice) -> None:
        self._devices[device.device_id] = device
        if not device.blocked:
            self._holders.update({row.digest: device.device_id for row in device.tokens if row.digest})

    async def _forget(self, request: DevicePairingRequest) -> None:
        self._requests.pop(request.request_id, None)
        await self._request_records.drop(request.request_id)

    def _asked(self, request_id: str) -> DevicePairingRequest:
        for request in self.requests():
            if request.request_id == request_id:
                return request
        raise MethodError("unknown requestId")

    def _known(self, ident: str) -> PairedDevice:
        device = self._devices.get(ident)
        if device is None or device.blocked:
            raise MethodError("unknown deviceId")
        return device

    def _resolved(self, request: DevicePairingRequest, decision: str) -> None:
        told = {"requestId": request.request_id, "deviceId": request.device_id, "decision": decision}
        self._said("device.pair.resolved", {**told, "ts": self._clock.now()})


def _within(scopes: Iterable[str], by: Iterable[str]) -> None:
    have = frozenset(by)
    for scope in scopes:
        if not has_scope(have, scope):
            raise MethodError(f"missing scope: {scope}")


def _union(one: Iterable[str], other: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({*one, *other}))


def _row(device: PairedDevice, role: str) -> DeviceToken | None:
    return next((token for token in device.tokens if token.role == role), None)


def _with(device: PairedDevice, token: DeviceToken) -> PairedDevice:
    return replace(device, tokens=(*(t for t in device.tokens if t.role != token.role), token))


def _facts(device: PairedDevice | DevicePairingRequest) -> dict[str, Any]:
    """What a device says of itself: the same fields in a request and in what becomes of it."""
    return {name: getattr(device, name) for name in PairedDevice.__struct_fields__[:8]}


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
