"""Tokens signed with RSA (RS256), checked and made: what Microsoft and Google prove themselves with, and what a service
account of Google's asks for its tokens with. Pure: keys, tokens and the time are handed in.

No library that we keep does RSA. Checking is public arithmetic. Signing is not done in constant time: a token is made
once an hour, for Google itself.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

LEEWAY = 300  # seconds that clocks may differ
LEAST_BITS = 2047  # of a key that is believed
_LONGEST = 16_384  # characters of a token
# DigestInfo of SHA-256 (RFC 8017, 9.2): what stands before the digest.
_SHA256 = bytes.fromhex("3031300d060960864801650304020105000420")


class RsaPublicKey(msgspec.Struct, frozen=True):
    """A key of somebody else. `endorsements`: what it may sign for, where its owner says so."""

    modulus: int
    exponent: int
    endorsements: tuple[str, ...] = ()


class RsaPrivateKey(msgspec.Struct, frozen=True):
    """A key of ours."""

    modulus: int
    secret: int
    primes: tuple[int, int]

    def __repr__(self) -> str:
        return "RsaPrivateKey(***)"


def read_jwks(told: Mapping[str, Any]) -> dict[str, RsaPublicKey]:
    """The RSA keys of a key set, by their ids. What cannot be read, or is too short, is left out."""
    found = {}
    rows = told.get("keys")
    for row in rows if isinstance(rows, list) else ():
        if not isinstance(row, Mapping) or row.get("kty") != "RSA" or row.get("use", "sig") != "sig":
            continue
        try:
            modulus, exponent = (int.from_bytes(_decode(str(row[name])), "big") for name in ("n", "e"))
        except (KeyError, ValueError):
            continue
        marks = row.get("endorsements")
        if modulus.bit_length() >= LEAST_BITS and exponent >= 3:
            told_marks = tuple(map(str, marks)) if isinstance(marks, list) else ()
            found[str(row.get("kid") or "")] = RsaPublicKey(modulus, exponent, told_marks)
    return found


def find_key_id(token: str) -> str:
    """Which key a token says it was signed with; "" if it is no RS256 token."""
    head = _object(token.partition(".")[0]) if len(token) <= _LONGEST else {}
    return str(head.get("kid") or "") if head.get("alg") == "RS256" else ""


def verify_token(
    token: str, key: RsaPublicKey, issuers: Collection[str], audience: str, now: int
) -> Mapping[str, Any] | None:
    """What a token claims, if this key signed it, for us, and now (seconds) is within its time; else None."""
    parts = token.split(".")
    if len(parts) != 3 or not audience or not find_key_id(token):
        return None
    try:
        signature = _decode(parts[2])
    except ValueError:
        return None
    if not _verify(key, f"{parts[0]}.{parts[1]}".encode(), signature):
        return None
    claims = _object(parts[1])
    meant = claims.get("aud")
    ends, begins = claims.get("exp"), claims.get("nbf", claims.get("iat", 0))
    if not isinstance(ends, int | float) or not isinstance(begins, int | float):
        return None
    fits = claims.get("iss") in issuers and (meant == audience or (isinstance(meant, list) and audience in meant))
    return claims if fits and begins - LEEWAY <= now <= ends + LEEWAY else None


def sign_token(key: RsaPrivateKey, claims: Mapping[str, Any], key_id: str = "") -> str:
    """A token of ours."""
    head = {"alg": "RS256", "typ": "JWT", **({"kid": key_id} if key_id else {})}
    signed = f"{_encode(json.dumps(head).encode())}.{_encode(json.dumps(claims).encode())}"
    size = (key.modulus.bit_length() + 7) // 8
    padded = int.from_bytes(_pad(signed.encode(), size), "big")
    p, q = key.primes  # by each of them alone (RFC 8017, 5.1.2): a quarter of the time
    by_p, by_q = (pow(padded, key.secret % (prime - 1), prime) for prime in key.primes)
    raised = by_q + (by_p - by_q) * pow(q, -1, p) % p * q
    return f"{signed}.{_encode(raised.to_bytes(size, 'big'))}"


def read_private_key(pem: str) -> RsaPrivateKey:
    """A key as service accounts have it (PKCS #8), or bare (PKCS #1). Raises ValueError."""
    lines = [line.strip() for line in pem.strip().splitlines()]
    if len(lines) < 3 or "PRIVATE KEY" not in lines[0]:
        raise ValueError("it is no private key in PEM form")
    body = _sequence(base64.b64decode("".join(lines[1:-1])))
    if len(body) >= 3 and not isinstance(body[1], int):  # version, algorithm, the key itself
        body = _sequence(_bytes(body[2]))
    if len(body) < 6 or not all(isinstance(one, int) for one in body[:6]):
        raise ValueError("it is no RSA key")
    return RsaPrivateKey(_int(body[1]), _int(body[3]), (_int(body[4]), _int(body[5])))


def _verify(key: RsaPublicKey, message: bytes, signature: bytes) -> bool:
    size = (key.modulus.bit_length() + 7) // 8
    number = int.from_bytes(signature, "big")
    if len(signature) != size or number >= key.modulus:
        return False
    return hmac.compare_digest(pow(number, key.exponent, key.modulus).to_bytes(size, "big"), _pad(message, size))


def _pad(message: bytes, size: int) -> bytes:
    """EMSA-PKCS1-v1_5: built whole and compared whole, so nothing in it is parsed."""
    tail = _SHA256 + hashlib.sha256(message).digest()
    return b"\x00\x01" + b"\xff" * (size - len(tail) - 3) + b"\x00" + tail


def _sequence(data: bytes) -> list[int | bytes]:
    """The parts of a DER sequence: numbers as such, all else as bytes. Raises ValueError."""
    tag, inner, _ = _element(data)
    if tag != 0x30:
        raise ValueError("it is no key")
    parts: list[int | bytes] = []
    while inner:
        tag, value, inner = _element(inner)
        parts.append(int.from_bytes(value, "big") if tag == 0x02 else value)
    return parts


def _element(data: bytes) -> tuple[int, bytes, bytes]:
    """Tag, content, and what follows. Raises ValueError."""
    if len(data) < 2:
        raise ValueError("the key ends early")
    size, at = data[1], 2
    if size & 0x80:
        count = size & 0x7F
        size, at = int.from_bytes(data[2 : 2 + count], "big"), 2 + count
    if len(data) < at + size:
        raise ValueError("the key ends early")
    return data[0], data[at : at + size], data[at + size :]


def _int(value: int | bytes) -> int:
    assert isinstance(value, int)
    return value


def _bytes(value: int | bytes) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError("it is no key")
    return value


def _object(part: str) -> dict[str, Any]:
    try:
        found = json.loads(_decode(part))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _decode(text: str) -> bytes:
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error as exc:
        raise ValueError("it is no base64") from exc


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
