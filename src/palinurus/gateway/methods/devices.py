"""Methods about paired devices. Who may hand out what is decided in `gateway/pairing.py`."""

from __future__ import annotations

from typing import Any

from palinurus.gateway.pairing import Pairing, shown
from palinurus.gateway.rpc import PAIRING, Call, Method, Params
from palinurus.gateway.ws.frames import Word


class Nothing(Params, frozen=True):
    pass


class Asked(Params, frozen=True):
    request_id: Word


class Named(Params, frozen=True):
    device_id: Word


class Role(Params, frozen=True):
    device_id: Word
    role: Word


class Rotated(Params, frozen=True):
    device_id: Word
    role: Word
    scopes: tuple[Word, ...] | None = None


async def listed(call: Call, params: Nothing) -> Any:
    """Requests that wait and devices that were approved."""
    pairing = _pairing(call)
    return {"pending": pairing.requests(), "paired": [shown(device) for device in pairing.devices()]}


async def approve(call: Call, params: Asked) -> Any:
    """Say yes to a request."""
    device = await _pairing(call).approve(params.request_id, call.client.scopes)
    return {"requestId": params.request_id, "device": shown(device)}


async def reject(call: Call, params: Asked) -> Any:
    """Say no to a request."""
    request = await _pairing(call).reject(params.request_id)
    return {"requestId": params.request_id, "deviceId": request.device_id}


async def remove(call: Call, params: Named) -> Any:
    """Take a device's access away."""
    await _pairing(call).remove(params.device_id, call.client.scopes)
    return {"deviceId": params.device_id}


async def rotate(call: Call, params: Rotated) -> Any:
    """A new token; only the device itself is told it."""
    own = params.device_id == call.client.device
    row, token = await _pairing(call).rotate(
        params.device_id, params.role, call.client.scopes, own=own, scopes=params.scopes
    )
    told = {"token": token} if token else {}
    base = {"deviceId": params.device_id, "role": row.role, "scopes": row.scopes}
    return base | told | {"rotatedAtMs": row.rotated_at_ms or row.created_at_ms}


async def revoke(call: Call, params: Role) -> Any:
    """Kill a device's token."""
    at = await _pairing(call).revoke(params.device_id, params.role, call.client.scopes)
    return {"deviceId": params.device_id, "role": params.role, "revokedAtMs": at}


def _pairing(call: Call) -> Pairing:
    found = call.gateway.pairing
    assert isinstance(found, Pairing)
    return found


METHODS = (
    Method("device.pair.list", PAIRING, Nothing, listed),
    Method("device.pair.approve", PAIRING, Asked, approve),
    Method("device.pair.reject", PAIRING, Asked, reject),
    Method("device.pair.remove", PAIRING, Named, remove),
    Method("device.token.rotate", PAIRING, Rotated, rotate),
    Method("device.token.revoke", PAIRING, Role, revoke),
)
