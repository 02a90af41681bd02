"""OpenAI Responses, and the variant behind the Codex sign-in."""

from __future__ import annotations

from palinurus.providers.wire import Wire
from palinurus.providers.wire.responses.decode import ResponsesDecoder
from palinurus.providers.wire.responses.request import codex, codex_path, encode, path

WIRE = Wire(encode=encode, decoder=ResponsesDecoder, path=path)
CODEX = Wire(encode=codex, decoder=ResponsesDecoder, path=codex_path)

__all__ = ["CODEX", "WIRE"]
