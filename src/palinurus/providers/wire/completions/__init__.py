"""OpenAI Chat Completions, and the many servers that speak it."""

from __future__ import annotations

from palinurus.providers.wire import ModelWire
from palinurus.providers.wire.completions.decode import CompletionsDecoder
from palinurus.providers.wire.completions.request import build_path, encode

WIRE = ModelWire(encode=encode, decoder=CompletionsDecoder, path=build_path)
