"""Amazon Bedrock's ConverseStream: bearer keys, or requests signed by whoever holds the credentials."""

from __future__ import annotations

from palinurus.providers.wire import Signer, Wire
from palinurus.providers.wire.bedrock.decode import BedrockDecoder
from palinurus.providers.wire.bedrock.request import encode, headers, path
from palinurus.providers.wire.bedrock.sign import Credentials, Scope, region, sign


def as_is(body: bytes) -> bytes:
    """There is no non-streamed form of this answer."""
    return body


def signed(url: str, given: dict[str, str], body: bytes, signer: Signer, at: str) -> dict[str, str]:
    """The headers of a signed request. Only what no proxy touches is signed beside the host and the date."""
    keys = Credentials(signer.access_key, signer.secret_key, signer.token)
    scope = Scope(region(url, signer.region or "us-east-1"), "bedrock", at)
    fixed = {name: value for name, value in given.items() if name.lower() == "content-type"}
    return sign("POST", url, fixed, body, keys, scope)


WIRE = Wire(encode=encode, decoder=BedrockDecoder, path=path, headers=headers, whole=as_is, sign=signed)

__all__ = ["WIRE", "signed"]
