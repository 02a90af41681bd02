"""Anthropic Messages, and the servers that speak it."""

from __future__ import annotations

from palinurus.providers.wire import ModelWire
from palinurus.providers.wire.anthropic.decode import AnthropicDecoder
from palinurus.providers.wire.anthropic.request import build_headers, build_path, encode

WIRE = ModelWire(
    encode=encode, decoder=AnthropicDecoder, path=build_path, headers=build_headers, key_header="x-api-key"
)
