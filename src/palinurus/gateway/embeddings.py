"""POST /v1/embeddings: texts as vectors, by the model memory is searched with. Knows OpenAI's shape, not the model."""

from __future__ import annotations

import base64
import struct
from typing import Any, Literal

import msgspec
from aiohttp import web

from palinurus.gateway import reply
from palinurus.gateway.chat import read_body
from palinurus.gateway.fault import HttpFault, make_bad_request
from palinurus.gateway.port import GatewayHost

EMBEDDING_MODEL = "all-minilm-l6-v2"
EMBEDDING_TEXTS = 128  # texts of one request
EMBEDDING_CHARS = 32_000  # of one text


class _Body(msgspec.Struct, frozen=True):
    input: str | list[str]
    model: str = ""  # there is one; whatever is named gets it
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = None


async def handle_embeddings(request: web.BaseRequest, host: GatewayHost) -> web.StreamResponse | HttpFault:
    """Answer one request."""
    data = await read_body(request)
    if isinstance(data, HttpFault):
        return data
    try:
        asked = msgspec.json.decode(data or b"{}", type=_Body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as exc:
        return make_bad_request(f"the body is not understood: {exc}")
    texts = [asked.input] if isinstance(asked.input, str) else asked.input
    if not 0 < len(texts) <= EMBEDDING_TEXTS or not all(0 < len(text) <= EMBEDDING_CHARS for text in texts):
        return make_bad_request(f"input: 1 to {EMBEDDING_TEXTS} texts of 1 to {EMBEDDING_CHARS} characters", "input")
    made = await host.desk.embed(texts) if host.desk is not None and host.desk.embed is not None else "it is not there"
    if isinstance(made, str):
        return HttpFault(503, f"there is no model for embeddings: {made}", "api_error", code="no_embeddings")
    if asked.dimensions not in (None, len(made[0])):
        return make_bad_request(f"the model has {len(made[0])} dimensions", "dimensions")
    rows = [{"object": "embedding", "index": at, "embedding": _as(asked, row)} for at, row in enumerate(made)]
    count = sum(len(text) // 4 + 1 for text in texts)  # as near as clients need it
    usage = {"prompt_tokens": count, "total_tokens": count}
    return reply.reply_json({"object": "list", "data": rows, "model": EMBEDDING_MODEL, "usage": usage})


def _as(asked: _Body, row: list[float]) -> Any:
    if asked.encoding_format == "float":
        return row
    return base64.b64encode(struct.pack(f"<{len(row)}f", *row)).decode()
