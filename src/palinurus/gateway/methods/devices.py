"""Methods about paired devices. Who may hand out what is decided in `gateway/pairing.py`."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from palinurus.gateway.rpc import PAIRING, GatewayMethod, MethodCall, MethodParams, NonEmpty, NoParams
from palinurus.gateway.ws.devicerow import describe_device


class DeviceRequestParams(MethodParams, frozen=True):
    request_id: NonEmpty


class DeviceParams(MethodParams, frozen=True):
    device_id: NonEmpty


class DeviceRoleParams(DeviceParams, frozen=True):
    role: NonEmpty


class TokenRotateParams(DeviceRoleParams, frozen=True):
    scopes: tuple[NonEmpty, ...] | None = None


class DeviceNameParams(DeviceParams, frozen=True):
    name: Annotated[str, Meta(min_length=1, max_length=80)]


async def list_devices(call: MethodCall, params: NoParams) -> Any:
    """Requests that wait and devices that were approved. `self`: the one that asks; `connected`: those here now."""
    pairing = call.gateway.pairing
    here = sorted({client.caller.device for client in call.gateway.clients() if client.caller.device})
    told = {"pending": pairing.requests(), "paired": [describe_device(device) for device in pairing.devices()]}
    return {**told, "self": call.client.caller.device, "connected": here}


async def rename_device(call: MethodCall, params: DeviceNameParams) -> Any:
    """Give a device a name that people know it by."""
    device = await call.gateway.pairing.amend(
        params.device_id, call.client.caller.scopes, display_name=params.name.strip()
    )
    return {"device": describe_device(device)}


async def approve_device(call: MethodCall, params: DeviceRequestParams) -> Any:
    """Say yes to a request."""
    device = await call.gateway.pairing.approve(params.request_id, call.client.caller.scopes)
    return {"requestId": params.request_id, "device": describe_device(device)}


async def reject_device(call: MethodCall, params: DeviceRequestParams) -> Any:
    """Say no to a request."""
    request = await call.gateway.pairing.reject(params.request_id)
    return {"requestId": params.request_id, "deviceId": request.device_id}


async def remove_device(call: MethodCall, params: DeviceParams) -> Any:
    """Take a device's access away."""
    await call.gateway.pairing.remove(params.device_id, call.client.caller.scopes)
    return {"deviceId": params.device_id}


async def rotate_device_token(call: MethodCall, params: TokenRotateParams) -> Any:
    """A new token; only the device itself is told it."""
    own = params.device_id == call.client.caller.device
    row, token = await call.gateway.pairing.rotate(
        params.device_id, params.role, call.client.caller.scopes, own=own, scopes=params.scopes
    )
    told = {"token": token} if token else {}
    base = {"deviceId": params.device_id, "role": row.role, "scopes": row.scopes}
    return base | told | {"rotatedAtMs": row.rotated_at_ms or row.created_at_ms}


async def revoke_device_token(call: MethodCall, params: DeviceRoleParams) -> Any:
    """Kill a device's token."""
    at = await call.gateway.pairing.revoke(params.device_id, params.role, call.client.caller.scopes)
    return {"deviceId": params.device_id, "role": params.role, "revokedAtMs": at}


METHODS = (
    GatewayMethod("device.pair.list", PAIRING, NoParams, list_devices),
    GatewayMethod("device.pair.approve", PAIRING, DeviceRequestParams, approve_device),
    GatewayMethod("device.pair.reject", PAIRING, DeviceRequestParams, reject_device),
    GatewayMethod("device.pair.rename", PAIRING, DeviceNameParams, rename_device),
    GatewayMethod("device.pair.remove", PAIRING, DeviceParams, remove_device),
    GatewayMethod("device.token.rotate", PAIRING, TokenRotateParams, rotate_device_token),
    GatewayMethod("device.token.revoke", PAIRING, DeviceRoleParams, revoke_device_token),
)
