"""What a wire is: how a request becomes a body, and bytes become events. Pure; one folder per API.

A wire knows its protocol and nothing else: no keys, no network, no vendor's name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import msgspec

from palinurus.core.types.model import ModelRequest, StreamDecoder
from palinurus.core.types.vendor import Vendor


def compose_body(request: ModelRequest, wire: ModelWire, vendor: Vendor, common: Vendor) -> dict[str, Any]:
    """The body that goes out: what the wire makes of a request, and the vendor's last word, or that of the `common`
    rules. The one way there, for live calls and for whoever wants to know what would be sent.

    Raises ValueError, TypeError, LookupError for requests that cannot be written."""
    rules = vendor if vendor.shapes(request.model.api) else common
    return rules.shape(wire.encode(request), request)


def build_vendor_headers(request: ModelRequest, vendor: Vendor, common: Vendor) -> dict[str, str]:
    """The vendor's headers beside the key; the `common` ones if it has none of its own."""
    build = vendor.headers or common.headers or omit_headers
    return build(request)


def omit_headers(request: ModelRequest) -> dict[str, str]:
    """None besides those every request has."""
    return {}


def to_sse_event(body: bytes) -> bytes:
    """A whole JSON answer as one server-sent event, for servers that do not stream although asked to."""
    return b"data: " + body.replace(b"\r", b" ").replace(b"\n", b" ") + b"\n\n"


class SigningKeys(NamedTuple):
    """Credentials for APIs with signed requests: `token` of temporary ones; `region` where the address has none."""

    access_key: str
    secret_key: str
    token: str = ""
    region: str = ""
    at: str = ""  # when it is signed: UTC as 20260131T235959Z

    def __repr__(self) -> str:
        return "Signer(***)"


# (url, headers so far, body, credentials) -> headers to add
Sign: TypeAlias = Callable[[str, dict[str, str], bytes, SigningKeys], dict[str, str]]


class ModelWire(msgspec.Struct, frozen=True):
    """`encode` gives the body, `decoder` a fresh machine for the answer, `path` the tail of the URL."""

    encode: Callable[[ModelRequest], dict[str, Any]]
    decoder: Callable[[ModelRequest], StreamDecoder]
    path: Callable[[ModelRequest], str]
    headers: Callable[[ModelRequest], dict[str, str]] = omit_headers
    key_header: str = "authorization"  # where the key goes when the vendor does not say otherwise
    whole: Callable[[bytes], bytes] = to_sse_event  # a non-streamed JSON answer -> bytes the decoder takes
    sign: Sign | None = None
