"""What is known of a device: rows on disk, and what clients see of them."""

from __future__ import annotations

from typing import Any

import msgspec


class PushPlace(msgspec.Struct, frozen=True, rename="camel"):
    """Where a browser's vendor takes notices for it. `digest`: of what its worker shows to be told what they are."""

    endpoint: str
    digest: str


class DeviceToken(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A device's token for one role."""

    role: str
    scopes: tuple[str, ...]
    created_at_ms: int
    digest: str = ""  # "" = none in force: the next login with the shared secret gets one
    rotated_at_ms: int | None = None
    revoked_at_ms: int | None = None


class PairedDevice(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A device that was approved. `blocked`: its access was taken away; only a person can give it back."""

    device_id: str
    public_key: str
    platform: str
    client_id: str
    client_mode: str
    role: str
    roles: tuple[str, ...]
    scopes: tuple[str, ...]
    created_at_ms: int
    approved_at_ms: int
    display_name: str | None = None
    device_family: str | None = None
    last_seen_at_ms: int | None = None
    last_seen_reason: str | None = None
    tokens: tuple[DeviceToken, ...] = ()
    push: PushPlace | None = None  # where it wants to be notified
    blocked: bool = False


class DevicePairingRequest(msgspec.Struct, frozen=True, rename="camel"):
    """A device that waits for a person's yes. Also what clients are shown."""

    request_id: str
    device_id: str
    public_key: str
    platform: str
    client_id: str
    client_mode: str
    role: str
    roles: tuple[str, ...]
    scopes: tuple[str, ...]
    is_repair: bool
    ts: int
    silent: bool = False


def describe_device(device: PairedDevice) -> dict[str, Any]:
    """A device as clients see it: digests and addresses left out."""
    out: dict[str, Any] = msgspec.to_builtins(device)
    out["tokens"] = [{k: v for k, v in token.items() if k != "digest"} for token in out.get("tokens", ())]
    out.pop("blocked", None)
    out["push"] = device.push is not None
    return out
