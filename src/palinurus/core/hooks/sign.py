"""Signatures of webhooks: who signs what, and whether it is right. Compared in constant time, over the bytes as they
came. A blank secret never fits. Schemes are rows of `SCHEMES`; pure.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

SIGNED_TIME_WINDOW = 300_000  # milliseconds a signed time may be off, both ways

_HEX = re.compile(r"[0-9a-fA-F]{64}")
_STAMP = re.compile(r"[0-9]{1,13}")


class SignatureClaim(NamedTuple):
    """What a request says: its signatures (one is enough), the time that was signed ("" if none) and the bytes."""

    signatures: tuple[str, ...]
    stamp: str
    signed: bytes


class SignatureScheme(NamedTuple):
    """`header` holds the signature. `timed`: without a fresh time in it a signature proves nothing."""

    header: str
    timed: bool
    read: Callable[[Mapping[str, str], bytes], SignatureClaim]


def verify_signature(scheme: str, secret: str, headers: Mapping[str, str], body: bytes, now: int) -> str:
    """The signature that fits, in lower case; "" when none does."""
    row = SIGNATURE_SCHEMES.get(scheme)
    if row is None or not secret.strip():
        return ""
    claim = row.read(headers, body)
    if row.timed and not _fresh(claim.stamp, now):
        return ""
    right = hmac.new(secret.encode(), claim.signed, hashlib.sha256).hexdigest()
    found = ""
    for given in claim.signatures[:8]:
        low = given.strip().lower()
        if _HEX.fullmatch(low) and hmac.compare_digest(low.encode(), right.encode()):
            found = right
    return found


def _fresh(stamp: str, now: int) -> bool:
    return bool(_STAMP.fullmatch(stamp)) and abs(now - int(stamp) * 1000) <= SIGNED_TIME_WINDOW


def _github(headers: Mapping[str, str], body: bytes) -> SignatureClaim:
    return SignatureClaim(_after(headers, "x-hub-signature-256", "sha256="), "", body)


def _stripe(headers: Mapping[str, str], body: bytes) -> SignatureClaim:
    """`t=TIME,v1=HEX[,v1=HEX]`: two while a secret is being changed."""
    pairs = [part.strip().partition("=") for part in headers.get("stripe-signature", "")[:2048].split(",")]
    stamps = [value for name, _, value in pairs if name == "t"]
    stamp = stamps[0] if len(stamps) == 1 else ""
    return SignatureClaim(tuple(value for name, _, value in pairs if name == "v1"), stamp, f"{stamp}.".encode() + body)


def _slack(headers: Mapping[str, str], body: bytes) -> SignatureClaim:
    stamp = headers.get("x-slack-request-timestamp", "")
    return SignatureClaim(_after(headers, "x-slack-signature", "v0="), stamp, f"v0:{stamp}:".encode() + body)


def _generic(headers: Mapping[str, str], body: bytes) -> SignatureClaim:
    stamp = headers.get("x-webhook-timestamp", "")
    return SignatureClaim(_after(headers, "x-webhook-signature", "sha256="), stamp, f"{stamp}.".encode() + body)


def _after(headers: Mapping[str, str], name: str, prefix: str) -> tuple[str, ...]:
    value = headers.get(name, "")
    return (value[len(prefix) :],) if value.startswith(prefix) else ()


SIGNATURE_SCHEMES: dict[str, SignatureScheme] = {
    "github": SignatureScheme("x-hub-signature-256", False, _github),
    "stripe": SignatureScheme("stripe-signature", True, _stripe),
    "slack": SignatureScheme("x-slack-signature", True, _slack),
    "generic": SignatureScheme("x-webhook-signature", True, _generic),
}
