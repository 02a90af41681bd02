"""OpenAI Chat Completions, and the many servers that speak it."""

from __future__ import annotations

from palinurus.providers.wire import Wire
from palinurus.providers.wire.completions.decode import CompletionsDecoder
from palinurus.providers.wire.completions.request import encode, path

WIRE = Wire(encode=encode, decoder=CompletionsDecoder, path=path)
