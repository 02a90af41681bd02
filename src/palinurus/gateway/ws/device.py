"""Device identity: an Ed25519 key whose owner signs this socket's challenge. Says whether a signature holds; what a
device may do is decided elsewhere. No I/O.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence

import msgspec
from nacl.bindings import crypto_sign_open
from nacl.exceptions import CryptoError

from palinurus.gateway.rpc import ClientDescription

SKEW_MS = 120_000
_PREFIX = bytes.fromhex("302a300506032b6570032100")  # what stands before the 32 bytes in a public key's DER form


class DeviceProof(msgspec.Struct, frozen=True, rename="camel"):
    """What a client sends to show that it holds a device's key."""

    id: str
    public_key: str
    signature: str
    signed_at: int
    nonce: str = ""


class DeviceClaim(msgspec.Struct, frozen=True):
    """Everything a signature covers besides the device itself."""

    client: ClientDescription
    role: str
    scopes: Sequence[str]
    token: str


class DeviceFault(msgspec.Struct, frozen=True):
    """Why a proof does not hold: what people read, details.code, details.reason."""

    message: str
    code: str
    reason: str


ID = DeviceFault("device identity mismatch", "DEVICE_AUTH_DEVICE_ID_MISMATCH", "device-id-mismatch")
KEY = DeviceFault("device public key invalid", "DEVICE_AUTH_PUBLIC_KEY_INVALID", "device-public-key")
STALE = DeviceFault("device signature expired", "DEVICE_AUTH_SIGNATURE_EXPIRED", "device-signature-stale")
NO_NONCE = DeviceFault("device nonce required", "DEVICE_AUTH_NONCE_REQUIRED", "device-nonce-missing")
NONCE = DeviceFault("device nonce mismatch", "DEVICE_AUTH_NONCE_MISMATCH", "device-nonce-mismatch")
SIGNATURE = DeviceFault("device signature invalid", "DEVICE_AUTH_SIGNATURE_INVALID", "device-signature")


def verify_device(proof: DeviceProof, claim: DeviceClaim, nonce: str, now: int) -> DeviceFault | None:
    """None when the device signed this challenge with these claims just now. The order of checks is the protocol's."""
    key = parse_public_key(proof.public_key)
    if key is None:
        return KEY
    if not hmac.compare_digest(derive_device_id(key).encode(), proof.id.encode("utf-8", "replace")):
        return ID
    if abs(now - proof.signed_at) > SKEW_MS:
        return STALE
    if not proof.nonce:
        return NO_NONCE
    if not hmac.compare_digest(nonce.encode(), proof.nonce.encode("utf-8", "replace")):
        return NONCE
    signature = decode_base64(proof.signature)
    if signature is None or len(signature) != 64:
        return SIGNATURE
    texts = (make_signed_text(version, proof.id, claim, proof.signed_at, nonce=nonce) for version in (3, 2))
    return None if any(_holds(key, signature, signed) for signed in texts) else SIGNATURE


def make_signed_text(version: int, device: str, claim: DeviceClaim, signed_at: int, nonce: str) -> bytes:
    """What is signed, in version 2 or 3 of the protocol's form."""
    client = claim.client
    parts = [device, client.id, client.mode, claim.role, ",".join(claim.scopes), str(signed_at), claim.token, nonce]
    if version >= 3:
        parts += [_plain(client.platform), _plain(client.device_family or "")]
    return f"v{version}|{'|'.join(parts)}".encode("utf-8", "replace")


def derive_device_id(key: bytes) -> str:
    """A device's name: the digest of its public key."""
    return hashlib.sha256(key).hexdigest()


def parse_public_key(written: str) -> bytes | None:
    """The 32 bytes of a public key given as base64url or as PEM."""
    if "BEGIN PUBLIC KEY" in written:
        der = decode_base64("".join(line for line in written.splitlines() if "-----" not in line))
        return der[len(_PREFIX) :] if der and der.startswith(_PREFIX) and len(der) == len(_PREFIX) + 32 else None
    key = decode_base64(written)
    return key if key is not None and len(key) == 32 else None


def encode_base64url(data: bytes) -> str:
    """base64url without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decode_base64(written: str) -> bytes | None:
    """The bytes of base64 in either alphabet, padded or not; None when it is not that."""
    try:
        plain = written.strip().rstrip("=").replace("-", "+").replace("_", "/").encode("ascii")
        return base64.b64decode(plain + b"=" * (-len(plain) % 4), validate=True)
    except (ValueError, binascii.Error):
        return None


def _plain(word: str) -> str:
    """Trimmed, with only A-Z lower-cased, as every client does it."""
    return "".join(chr(ord(c) + 32) if "A" <= c <= "Z" else c for c in word.strip())


def _holds(key: bytes, signature: bytes, signed: bytes) -> bool:
    try:
        crypto_sign_open(signature + signed, key)
    except CryptoError:
        return False
    return True
