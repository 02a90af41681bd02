"""Signatures of both versions, and everything that must break one."""

from __future__ import annotations

import base64

import msgspec
import pytest
from msgspec.structs import replace

from palinurus.gateway.client import make_identity
from palinurus.gateway.rpc import ClientDescription
from palinurus.gateway.ws import device

NOW = 1_794_771_181_957
ME = make_identity(b"s" * 32)
INFO = ClientDescription("cli", "1", " LinuX ", "cli", device_family="Phöne")
CLAIM = device.DeviceClaim(INFO, "operator", ("operator.read", "operator.admin"), "secret")


def proof(version: int = 3, claim: device.DeviceClaim = CLAIM, at: int = NOW, nonce: str = "n1") -> device.DeviceProof:
    text = device.make_signed_text(version, ME.id, claim, at, nonce)
    return device.DeviceProof(ME.id, device.encode_base64url(ME.public), ME.sign(text), at, nonce)


def test_what_is_signed() -> None:
    start = f"{ME.id}|cli|cli|operator|operator.read,operator.admin|{NOW}|secret|n1"
    assert device.make_signed_text(2, ME.id, CLAIM, NOW, "n1").decode() == f"v2|{start}"
    assert device.make_signed_text(3, ME.id, CLAIM, NOW, "n1").decode() == f"v3|{start}|linux|phöne"


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("skew", [0, 120_000, -120_000])
def test_both_versions_hold_within_the_window(version: int, skew: int) -> None:
    assert device.verify_device(proof(version), CLAIM, "n1", NOW + skew) is None


def test_a_key_may_be_written_as_pem() -> None:
    der = bytes.fromhex("302a300506032b6570032100") + ME.public
    pem = f"-----BEGIN PUBLIC KEY-----\n{base64.b64encode(der).decode()}\n-----END PUBLIC KEY-----\n"
    assert device.parse_public_key(pem) == ME.public
    assert device.verify_device(replace(proof(), public_key=pem), CLAIM, "n1", NOW) is None


OTHER = make_identity(b"o" * 32)


@pytest.mark.parametrize(
    ("broken", "fault"),
    [
        (replace(proof(), id="0" * 64), device.ID),
        (replace(proof(), id=ME.id.upper()), device.ID),
        (replace(proof(), public_key=device.encode_base64url(OTHER.public)), device.ID),
        (replace(proof(), public_key="x"), device.KEY),
        (replace(proof(), public_key=""), device.KEY),
        (replace(proof(), public_key=device.encode_base64url(b"k" * 31)), device.KEY),
        (replace(proof(), signed_at=1), device.STALE),
        (proof(at=NOW - 120_001), device.STALE),
        (proof(at=NOW + 120_001), device.STALE),
        (replace(proof(), nonce=""), device.NO_NONCE),
        (proof(nonce="n2"), device.NONCE),
        (replace(proof(), signature=device.encode_base64url(b"\0" * 64)), device.SIGNATURE),
        (replace(proof(), signature=""), device.SIGNATURE),
        (replace(proof(), signature="!!"), device.SIGNATURE),
        (replace(proof(), signature=proof().signature + "AAAA"), device.SIGNATURE),
        (replace(proof(), signed_at=NOW + 1), device.SIGNATURE),
    ],
)
def test_what_breaks_a_proof(broken: device.DeviceProof, fault: device.DeviceFault) -> None:
    assert device.verify_device(broken, CLAIM, "n1", NOW) == fault


@pytest.mark.parametrize(
    "claim",
    [
        msgspec.structs.replace(CLAIM, scopes=("operator.admin", "operator.read")),
        msgspec.structs.replace(CLAIM, scopes=("operator.admin",)),
        msgspec.structs.replace(CLAIM, role="node"),
        msgspec.structs.replace(CLAIM, token="other"),
        msgspec.structs.replace(CLAIM, client=replace(INFO, id="openclaw-tui")),
        msgspec.structs.replace(CLAIM, client=replace(INFO, mode="ui")),
        msgspec.structs.replace(CLAIM, client=replace(INFO, platform="darwin")),
    ],
)
def test_every_claim_is_covered(claim: device.DeviceClaim) -> None:
    assert device.verify_device(proof(), claim, "n1", NOW) == device.SIGNATURE
