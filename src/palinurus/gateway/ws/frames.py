"""The frames of protocol 4 as bytes: requests in, responses and events out, and the words for what is wrong with one.

No I/O. Events are built from three pieces, so that one encoded payload serves every client.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from palinurus.gateway.rpc import MethodError, NonEmpty
from palinurus.patterns import decode_late

PROTOCOL = 4
BEFORE_LOGIN = 64 * 1024  # bytes a peer may send before it has logged in, all frames together
FRAME = 25 * 1024 * 1024  # bytes of one frame after login
BUFFERED = 50 * 1024 * 1024  # bytes that may wait for a client that reads slowly
TICK_MS = 30_000
REASON = 120  # bytes of a close reason; the wire allows 123


class RequestFrame(msgspec.Struct, frozen=True):
    """A request as it came. `params` is decoded later, into the method's own type."""

    type: Literal["req"]
    id: NonEmpty
    method: NonEmpty
    params: msgspec.Raw = msgspec.Raw(b"{}")


class BadFrame(msgspec.Struct, frozen=True):
    """A frame that is JSON but no request: answer under `id`, keep the connection."""

    id: str
    message: str


_request = decode_late(RequestFrame)
_any = msgspec.json.Decoder()
_encode = msgspec.json.Encoder().encode


def decode_request(data: str | bytes) -> RequestFrame | BadFrame | None:
    """The request in a frame; None when it is not JSON at all (such frames are ignored). Never raises."""
    try:
        return _request.decode(data)
    except msgspec.ValidationError:
        pass
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    try:
        value = _any.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    if not isinstance(value, dict):
        return BadFrame("invalid", "invalid request frame: must be object")
    ident = value.get("id")
    faults = [f"must have required property '{name}'" for name in ("id", "method") if name not in value]
    if "type" not in value:
        faults.append("must have required property 'type'")
    elif value["type"] != "req":
        faults.append("at /type: must be equal to constant")
    for name in ("id", "method"):
        given = value.get(name, "x")
        if not isinstance(given, str):
            faults.append(f"at /{name}: must be string")
        elif not given:
            faults.append(f"at /{name}: must NOT have fewer than 1 characters")
    good = isinstance(ident, str) and bool(ident)
    return BadFrame(str(ident) if good else "invalid", "invalid request frame: " + "; ".join(faults))


def encode_json(value: Any) -> bytes:
    """JSON. Half a surrogate pair, which models do produce, becomes a replacement character."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return _encode(_clean(msgspec.to_builtins(value)))


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {_clean(key): _clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(item) for item in value]
    return value


def encode_answer(ident: str, payload: Any) -> bytes:
    """A response that says ok."""
    body = payload if isinstance(payload, msgspec.Raw) else encode_json(payload)
    return b'{"type":"res","id":' + encode_json(ident) + b',"ok":true,"payload":' + bytes(body) + b"}"


def encode_refusal(ident: str, error: MethodError) -> bytes:
    """A response that says why not. Clients drop it unless code and message are there."""
    shape: dict[str, Any] = {"code": error.code or "UNAVAILABLE", "message": error.message or "failed"}
    if error.details is not None:
        shape["details"] = error.details
    if error.retryable is not None:
        shape["retryable"] = error.retryable
    if error.retry_after_ms is not None:
        shape["retryAfterMs"] = max(0, int(error.retry_after_ms))
    return encode_json({"type": "res", "id": ident, "ok": False, "error": shape})


def encode_event_head(event: str) -> bytes:
    """The bytes of an event before its payload."""
    return b'{"type":"event","event":' + encode_json(event) + b',"payload":'


def encode_event_tail(seq: int | None = None, version: bytes = b"", pos: int | None = None) -> bytes:
    """The bytes of an event after its payload. `version` is an encoded stateVersion."""
    out = b""
    if seq is not None:
        out += b',"seq":%d' % seq
    if version:
        out += b',"stateVersion":' + version
    if pos is not None:
        out += b',"pos":%d' % pos
    return out + b"}"


def encode_close_reason(text: str) -> bytes:
    """A close reason that fits, cut between characters."""
    return text.encode("utf-8", "replace")[:REASON].decode("utf-8", "ignore").encode()
