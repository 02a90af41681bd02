"""Anthropic Messages, and the servers that speak it."""

from __future__ import annotations

from palinurus.providers.wire import Wire
from palinurus.providers.wire.anthropic.decode import AnthropicDecoder
from palinurus.providers.wire.anthropic.request import encode, headers, path

WIRE = Wire(encode=encode, decoder=AnthropicDecoder, path=path, headers=headers, key_header="x-api-key")
