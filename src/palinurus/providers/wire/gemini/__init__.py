"""Google's Gemini API: streamGenerateContent."""

from __future__ import annotations

from palinurus.providers.wire import Wire
from palinurus.providers.wire.gemini.decode import GeminiDecoder
from palinurus.providers.wire.gemini.request import encode, path

WIRE = Wire(encode=encode, decoder=GeminiDecoder, path=path, key_header="x-goog-api-key")

__all__ = ["WIRE"]
