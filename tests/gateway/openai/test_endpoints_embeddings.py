"""Texts as vectors over HTTP, with the client most people have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aiohttp
import pytest

import tiny
from gateway.host import TOKEN
from gateway.whole import Place, place
from later import open_openai
from palinurus.gateway.openai.endpoints import EMBEDDING_MODEL, EMBEDDING_TEXTS
from palinurus.providers.local.weights import EMBEDDING_WEIGHTS

pytest.importorskip("numpy")


async def post(here: Place, body: Any) -> tuple[int, dict[str, Any]]:
    address = f"http://127.0.0.1:{here.server.port}/v1/embeddings"
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {TOKEN}"}) as session:
        async with session.post(address, json=body) as answer:
            return answer.status, await answer.json()


async def test_a_client_gets_vectors(tmp_path: Path) -> None:
    tiny.model(tmp_path / "h")
    async with place(tmp_path / "h") as here:
        async with open_openai(here.server.port, TOKEN) as client:
            packed = await client.embeddings.create(input=["tea", "beverage", "cat"] * 4, model=EMBEDDING_MODEL)
            plain = await client.embeddings.create(input="tea", model="any", encoding_format="float")
        first, second, third = (row.embedding for row in packed.data[:3])
        assert [row.index for row in packed.data] == list(range(12)) and packed.usage.total_tokens > 0
        assert plain.data[0].embedding == pytest.approx(first) and len(first) == tiny.WIDTH
        near, far = (sum(a * b for a, b in zip(first, other, strict=True)) for other in (second, third))
        assert near > far + 0.2
        for body in (
            {},
            {"input": []},
            {"input": ""},
            {"input": ["x"] * (EMBEDDING_TEXTS + 1)},
            {"input": "x", "dimensions": 7},
        ):
            assert (await post(here, body))[0] == 400, body


async def test_without_the_model_the_way_to_it_is_told(tmp_path: Path) -> None:
    async with place(tmp_path / "h") as here:
        status, told = await post(here, {"input": "tea"})
    assert status == 503 and "pal memory pull" in told["error"]["message"]
    assert EMBEDDING_WEIGHTS.name == EMBEDDING_MODEL
