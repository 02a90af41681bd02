"""AWS Signature Version 4 as a pure function: credentials and time come in, headers go out."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, urlsplit

from palinurus.providers.wire import SigningKeys

_ALGORITHM = "AWS4-HMAC-SHA256"
_REGION = re.compile(r"[a-z-]+-runtime(?:-fips)?\.([a-z0-9-]+)\.(?:vpce\.)?amazonaws\.")


class SigningScope(NamedTuple):
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
