"""Webhooks as rules: requests and answers, signatures, templates. Pure: bodies, secrets and the time are handed in.

Signatures are compared in constant time, over the bytes as they came; a blank secret never fits. A template's
`{{a.b[0]}}` names a value of the payload; a path only reads, there is nothing to run.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from palinurus.patterns import compile_late

MAX_VALUE = 20_000  # characters of one value
MAX_VALUES = 100_000  # of all values of one message
MAX_SLOTS = 100
_SLOT = compile_late(r"\{\{\s{0,20}([^{}]{1,200}?)\s{0,20}\}\}")
_STEP = compile_late(r"\.?([^.\[\]\s]+)|\[(\d{1,6})\]")
SIGNED_TIME_WINDOW = 300_000  # milliseconds a signed time may be off, both ways
_HEX = compile_late(r"[0-9a-fA-F]{64}")
_STAMP = compile_late(r"[0-9]{1,13}")


class WebhookHead(msgspec.Struct, frozen=True):
    """What is known before the body is read. `headers` have lower-case names; one that came twice is joined."""

    name: str  # what stands behind the base path: "wake", "agent", or a hook's own
    headers: Mapping[str, str]


class WebhookAnswer(msgspec.Struct, frozen=True):
    """The answer: an object goes out as JSON, a text as text. `wrong`: the credential was, which is counted."""

    status: int
    body: dict[str, Any] | str
    wrong: bool = False
    retry: int = 0  # seconds after which it may be tried again


def refuse_webhook(status: int, error: str) -> WebhookAnswer:
    """A refusal in the shape clients of OpenClaw know."""
    return WebhookAnswer(status, {"ok": False, "error": error})


WEBHOOK_UNAUTHORIZED = WebhookAnswer(401, "Unauthorized", wrong=True)
WEBHOOK_NOT_FOUND = WebhookAnswer(404, "Not Found")


# --- signatures: schemes are rows of `SIGNATURE_SCHEMES` ---------------------------------------------------------


class SignatureClaim(msgspec.Struct, frozen=True):
    """What a request says: its signatures (one is enough), the time that was signed ("" if none) and the bytes."""

    signatures: tuple[str, ...]
    stamp: str
    signed: bytes


class SignatureScheme(msgspec.Struct, frozen=True):
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


# --- templates -------------------------------------------------------------------------------------------------------


def list_slots(template: str) -> tuple[str, ...]:
    """The paths it names, each once, in order."""
    return tuple(dict.fromkeys(found[1] for found in _SLOT.finditer(template)))[:MAX_SLOTS]


def read_slot(path: str, scope: Mapping[str, Any]) -> str:
    """The value as text: objects and lists as JSON, what is not there as nothing. A path begins in `scope`
    (headers, path, payload …), else in the payload."""
    steps: list[str | int] = []
    at = 0
    while at < len(path):
        found = _STEP.match(path, at)
        if found is None:
            return ""
        steps.append(found[1] if found[1] is not None else int(found[2]))
        at = found.end()
    here: Any = scope if steps and steps[0] in scope else scope.get("payload")
    for step in steps:
        inside = step < len(here) if isinstance(step, int) and isinstance(here, list) else False
        named = step in here if isinstance(step, str) and isinstance(here, Mapping) else False
        if not inside and not named:
            return ""
        here = here[step]
    return _text(here)[:MAX_VALUE]


def fill_template(template: str, scope: Mapping[str, Any], clean: Callable[[str], str]) -> str:
    """With every value in its place, cleaned."""
    return _SLOT.sub(lambda found: clean(read_slot(found[1], scope)), template)


def separate_values(template: str, scope: Mapping[str, Any]) -> tuple[str, str]:
    """The owner's words, with names where values belong, and the values under those names."""
    words = _SLOT.sub(lambda found: f"⟦{found[1]}⟧", template)
    facts = "\n".join(f"{path}: {read_slot(path, scope)}" for path in list_slots(template))
    return words, facts[:MAX_VALUES]


def _text(found: Any) -> str:
    if isinstance(found, str):
        return found
    if found is None:
        return ""
    try:
        return msgspec.json.encode(found).decode()
    except (OverflowError, ValueError, RecursionError):  # a number nobody can write down
        return ""
