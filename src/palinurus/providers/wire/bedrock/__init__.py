"""Amazon Bedrock's ConverseStream. Signing is `sign`, done by whoever holds the credentials."""

from __future__ import annotations

from palinurus.providers.wire import Wire
from palinurus.providers.wire.bedrock.decode import BedrockDecoder
from palinurus.providers.wire.bedrock.request import encode, headers, path
from palinurus.providers.wire.bedrock.sign import Credentials, sign


def as_is(body: bytes) -> bytes:
    """There is no non-streamed form of this answer."""
    return body


WIRE = Wire(encode=encode, decoder=BedrockDecoder, path=path, headers=headers, whole=as_is)

__all__ = ["WIRE", "Credentials", "sign"]
