"""Ollama's native chat."""

from __future__ import annotations

from palinurus.providers.wire import Wire
from palinurus.providers.wire.ollama.decode import OllamaDecoder
from palinurus.providers.wire.ollama.lines import as_line
from palinurus.providers.wire.ollama.request import encode, path

WIRE = Wire(encode=encode, decoder=OllamaDecoder, path=path, whole=as_line)

__all__ = ["WIRE"]
