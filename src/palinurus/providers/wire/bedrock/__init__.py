"""Amazon Bedrock's ConverseStream: bearer keys, or requests signed by whoever holds the credentials."""

from __future__ import annotations

from palinurus.providers.wire import ModelWire, SigningKeys
from palinurus.providers.wire.bedrock.decode import BedrockDecoder
from palinurus.providers.wire.bedrock.request import build_headers, build_path, encode
from palinurus.providers.wire.bedrock.sign import SigningScope, parse_region, sign_headers


def keep_body(body: bytes) -> bytes:
    """There is no non-streamed form of this answer."""
    return body


def sign_request(url: str, given: dict[str, str], body: bytes, signer: SigningKeys, at: str) -> dict[str, str]:
    """The headers of a signed request. Only what no proxy touches is signed beside the host and the date."""
    scope = SigningScope(parse_region(url, signer.region or "us-east-1"), "bedrock", at)
    fixed = {name: value for name, value in given.items() if name.lower() == "content-type"}
    return sign_headers("POST", url, fixed, body, signer, scope)


WIRE = ModelWire(
    encode=encode, decoder=BedrockDecoder, path=build_path, headers=build_headers, whole=keep_body, sign=sign_request
)
