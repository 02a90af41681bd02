"""What AWS puts around a protocol, without I/O: the binary event-stream framing, and Signature Version 4.

A frame is: length, length of headers, checksum of these two, headers, payload, checksum of all. Both checksums are
checked. The reader never raises: at the first fault `failed` says what, and nothing more comes out.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
import zlib
from collections.abc import Mapping
from urllib.parse import parse_qsl, quote, urlsplit

import msgspec

from palinurus.patterns import compile_late
from palinurus.providers.wire import SigningKeys

# --- frames ---------------------------------------------------------------------------------------------------

MAX_FRAME = 24_000_000  # the protocol allows 16 MiB of payload and 128 KiB of headers
_PRELUDE = struct.Struct(">III")
_FIXED: dict[int, int] = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}  # header types by the size of their value
_STRING = 7
_BYTES = 6


class BedrockFrame(msgspec.Struct, frozen=True):
    """Its string headers, and the payload."""

    headers: dict[str, str]
    payload: bytes


class BedrockFrameReader:
    """One stream."""

    odd = b""
    __slots__ = ("_buffer", "_need", "failed")

    def __init__(self) -> None:
        self.failed: str | None = None
        self._buffer = bytearray()
        self._need = 0  # length of the frame under way; 0 until its prelude is complete

    def feed(self, data: bytes) -> list[BedrockFrame]:
        """The frames these bytes complete."""
        if self.failed is not None:
            return []
        self._buffer += data
        out: list[BedrockFrame] = []
        while self._length() and len(self._buffer) >= self._need:
            raw = bytes(self._buffer[: self._need])
            del self._buffer[: self._need]
            self._need = 0
            frame = self._frame(raw)
            if frame is None:
                break
            out.append(frame)
        return out

    def close(self) -> list[BedrockFrame]:
        """Nothing; `failed` says if half a frame was left."""
        if self._buffer and self.failed is None:
            self.failed = "half a frame"
        return []

    def _length(self) -> bool:
        """Is the length of the frame under way known, and possible?"""
        if self.failed is not None:
            return False
        if self._need:
            return True
        if len(self._buffer) < _PRELUDE.size:
            return False
        total, headers, crc = _PRELUDE.unpack_from(self._buffer)
        if zlib.crc32(self._buffer[:8]) != crc:
            self.failed = "a frame whose prelude checksum is wrong"
        elif not 16 <= total <= MAX_FRAME or headers > total - 16:
            self.failed = "a frame of impossible length"
        else:
            self._need = total
        return self.failed is None

    def _frame(self, raw: bytes) -> BedrockFrame | None:
        if zlib.crc32(raw[:-4]) != int.from_bytes(raw[-4:], "big"):
            self.failed = "a frame whose checksum is wrong"
            return None
        end = 12 + int.from_bytes(raw[4:8], "big")
        headers = _headers(raw[12:end])
        if headers is None:
            self.failed = "a frame whose headers cannot be read"
            return None
        return BedrockFrame(headers, raw[end:-4])


def _headers(raw: bytes) -> dict[str, str] | None:
    found: dict[str, str] = {}
    at = 0
    while at < len(raw):
        size = raw[at]
        name = raw[at + 1 : at + 1 + size]
        at += 1 + size
        if len(name) != size or at >= len(raw):
            return None
        kind = raw[at]
        at += 1
        if kind in (_BYTES, _STRING):
            if at + 2 > len(raw):
                return None
            length = int.from_bytes(raw[at : at + 2], "big")
            at += 2
        elif kind in _FIXED:
            length = _FIXED[kind]
        else:
            return None
        value = raw[at : at + length]
        if len(value) != length:
            return None
        at += length
        if kind == _STRING:
            found[name.decode("utf-8", "replace")] = value.decode("utf-8", "replace")
    return found


def encode_frame(headers: dict[str, str], payload: bytes) -> bytes:
    """Bytes of one frame; for recordings and fakes."""
    head = b"".join(
        bytes([len(k := name.encode())]) + k + bytes([_STRING]) + len(v := value.encode()).to_bytes(2, "big") + v
        for name, value in headers.items()
    )
    lengths = struct.pack(">II", 16 + len(head) + len(payload), len(head))
    rest = lengths + zlib.crc32(lengths).to_bytes(4, "big") + head + payload
    return rest + zlib.crc32(rest).to_bytes(4, "big")


# --- signatures -----------------------------------------------------------------------------------------------

_ALGORITHM = "AWS4-HMAC-SHA256"
_REGION = compile_late(r"(?<![a-z-])[a-z-]+-runtime(?:-fips)?\.([a-z0-9-]+)\.(?:vpce\.)?amazonaws\.")


class SigningScope(msgspec.Struct, frozen=True):
    """Where and when a signature is good. `at` is UTC in the form 20260131T235959Z."""

    region: str
    service: str
    at: str

    @property
    def text(self) -> str:
        return f"{self.at[:8]}/{self.region}/{self.service}/aws4_request"


def sign_headers(
    method: str, url: str, headers: Mapping[str, str], body: bytes, keys: SigningKeys, scope: SigningScope
) -> dict[str, str]:
    """The headers to add: x-amz-date, the security token if there is one, authorization.

    `url` is in the form it goes over the wire, path already quoted once; `headers` are those to be signed too.
    """
    parts = urlsplit(url)
    signed = {key.lower(): " ".join(value.split()) for key, value in headers.items()}
    signed.setdefault("host", parts.netloc)
    signed["x-amz-date"] = scope.at
    if keys.token:
        signed["x-amz-security-token"] = keys.token
    names = ";".join(sorted(signed))
    canonical = "\n".join(
        (
            method.upper(),
            quote(parts.path or "/", safe="/-_.~"),
            _query(parts.query),
            *(f"{name}:{signed[name]}" for name in sorted(signed)),
            "",
            names,
            hashlib.sha256(body).hexdigest(),
        )
    )
    text = "\n".join((_ALGORITHM, scope.at, scope.text, hashlib.sha256(canonical.encode()).hexdigest()))
    signature = hmac.new(_key(keys.secret_key, scope), text.encode(), hashlib.sha256).hexdigest()
    found = {
        "x-amz-date": scope.at,
        "authorization": f"{_ALGORITHM} Credential={keys.access_key}/{scope.text}, "
        f"SignedHeaders={names}, Signature={signature}",
    }
    if keys.token:
        found["x-amz-security-token"] = keys.token
    return found


def _query(query: str) -> str:
    pairs = sorted((quote(k, safe="-_.~"), quote(v, safe="-_.~")) for k, v in parse_qsl(query, keep_blank_values=True))
    return "&".join(f"{key}={value}" for key, value in pairs)


def _key(secret: str, scope: SigningScope) -> bytes:
    key = f"AWS4{secret}".encode()
    for word in (scope.at[:8], scope.region, scope.service, "aws4_request"):
        key = hmac.new(key, word.encode(), hashlib.sha256).digest()
    return key


def parse_region(url: str, fallback: str = "us-east-1") -> str:
    """The region in a service's host name: bedrock-runtime.eu-west-1.amazonaws.com."""
    found = _REGION.search(urlsplit(url).hostname or "")
    return found[1] if found else fallback
