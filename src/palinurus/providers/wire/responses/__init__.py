"""OpenAI Responses, and the variant behind the Codex sign-in."""

from __future__ import annotations

from palinurus.providers.wire import ModelWire
from palinurus.providers.wire.responses.decode import ResponsesDecoder
from palinurus.providers.wire.responses.request import build_codex_path, build_path, encode, encode_codex

WIRE = ModelWire(encode=encode, decoder=ResponsesDecoder, path=build_path)
CODEX = ModelWire(encode=encode_codex, decoder=ResponsesDecoder, path=build_codex_path)
