"""Google's Gemini API: streamGenerateContent."""

from __future__ import annotations

from palinurus.providers.wire import ModelWire
from palinurus.providers.wire.gemini.decode import GeminiDecoder
from palinurus.providers.wire.gemini.request import build_path, encode

WIRE = ModelWire(encode=encode, decoder=GeminiDecoder, path=build_path, key_header="x-goog-api-key")
