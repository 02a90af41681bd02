"""Ollama's native chat."""

from __future__ import annotations

from palinurus.providers.wire import ModelWire
from palinurus.providers.wire.ollama.decode import OllamaDecoder, to_line
from palinurus.providers.wire.ollama.request import build_path, encode

WIRE = ModelWire(encode=encode, decoder=OllamaDecoder, path=build_path, whole=to_line)
