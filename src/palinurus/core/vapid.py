"""Who sends a notice to a browser, proved (RFC 8292): a token signed with ECDSA on P-256, which no library that we keep
can do. Notices carry no content, so nothing is encrypted here. The nonce comes from key and message (RFC 6979), never
from chance. Not for secrets worth timing: a token is made a few times a day, for the vendor of one's own browser.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import TypeAlias

import msgspec

P = 0xFFFFFFFF00000001000000000000000000000000FFFFFFFFFFFFFFFFFFFFFFFF
N = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
G = (
    0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
    0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
)
LIFE = 12 * 3600  # seconds that a token counts; vendors take a day at most
Point: TypeAlias = tuple[int, int] | None


def make_signing_key(chance: bytes) -> int:
    """The secret number of 40 random bytes."""
    return int.from_bytes(chance, "big") % (N - 1) + 1


def show_public_key(key: int) -> str:
    """As browsers want it: the uncompressed point, base64url."""
    point = _multiply(key, G)
    assert point is not None
    return _encode(b"\x04" + point[0].to_bytes(32, "big") + point[1].to_bytes(32, "big"))


def sign_vapid_token(key: int, audience: str, subject: str, now: int) -> str:
    """A token for one vendor (the origin of the endpoint). `now` in seconds."""
    head = _encode(b'{"typ":"JWT","alg":"ES256"}')
    body = _encode(msgspec.json.encode({"aud": audience, "exp": now + LIFE, "sub": subject}))
    return f"{head}.{body}.{_encode(sign_es256(key, f'{head}.{body}'.encode()))}"


def sign_es256(key: int, message: bytes) -> bytes:
    """r and s, 32 bytes each."""
    digest = hashlib.sha256(message).digest()
    number = int.from_bytes(digest, "big") % N
    state, seed = b"\x01" * 32, key.to_bytes(32, "big") + number.to_bytes(32, "big")
    secret = hmac.digest(b"\x00" * 32, state + b"\x00" + seed, "sha256")
    state = hmac.digest(secret, state, "sha256")
    secret = hmac.digest(secret, state + b"\x01" + seed, "sha256")
    state = hmac.digest(secret, state, "sha256")
    while True:
        state = hmac.digest(secret, state, "sha256")
        nonce = int.from_bytes(state, "big")
        point = _multiply(nonce, G) if 0 < nonce < N else None
        r = point[0] % N if point is not None else 0
        s = pow(nonce, -1, N) * (number + r * key) % N if r else 0
        if r and s:
            return r.to_bytes(32, "big") + s.to_bytes(32, "big")
        secret = hmac.digest(secret, state + b"\x00", "sha256")
        state = hmac.digest(secret, state, "sha256")


def _encode(data: bytes) -> str:
    """Without the equals signs."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _multiply(times: int, point: Point) -> Point:
    made: Point = None
    for bit in f"{times:b}":
        made = _add(made, made)
        if bit == "1":
            made = _add(made, point)
    return made


def _add(one: Point, other: Point) -> Point:
    if one is None or other is None:
        return one or other
    (x, y), (u, v) = one, other
    if x == u and (y + v) % P == 0:
        return None
    slope = (3 * x * x - 3) * pow(2 * y, -1, P) if one == other else (v - y) * pow(u - x, -1, P)
    left = (slope * slope - x - u) % P
    return left, (slope * (x - left) - y) % P
