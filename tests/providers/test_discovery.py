"""A server somebody named, and one word asked of a model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from aiohttp import web

from palinurus.clock import SystemClock
from palinurus.config.load import load_config
from palinurus.providers.discovery import (
    ADDRESS,
    SERVER,
    explain_silence,
    inspect_server,
    is_server_address,
    read_window,
)
from palinurus.providers.probe import probe_windows
from palinurus.providers.wire.ollama import MOST_CONTEXT
from palinurus.testing.model import say
from palinurus.testing.server import ModelServer, respond_status


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("http://a:1/v1", True),
        (" https://a ", True),
        ("a:1", False),
        ("ftp://a", False),
        ("http://[", False),
        ("", False),
    ],
)
def test_what_an_address_looks_like(text: str, is_one: bool) -> None:
    assert is_server_address(text) is is_one


async def test_a_server_is_found_with_or_without_its_path_and_answers(tmp_path: Path) -> None:
    server = ModelServer([say("Yes."), respond_status(401, "no such key")])
    await server.start()
    try:
        found = await inspect_server(server.url.removesuffix("/v1"))
        assert not isinstance(found, str) and found.base == server.url and found == await inspect_server(server.url)
        config = {"models": {"providers": {SERVER: {**found.entry, "apiKey": "k"}}}}
        (tmp_path / "palinurus.json").write_text(json.dumps(config))
        settings = load_config(str(tmp_path), {}).settings
        ref = f"{SERVER}/{found.models[0]}"
        assert await explain_silence(settings, {}, SystemClock(), ref) == ""
        assert await explain_silence(settings, {}, SystemClock(), ref) != ""
        assert "'nobody'" in await explain_silence(settings, {}, SystemClock(), "nobody/x")
    finally:
        await server.stop()


async def test_why_there_is_none() -> None:
    assert await inspect_server("nowhere") == ADDRESS
    assert "no list of models at http://127.0.0.1:9/v1/models" in str(await inspect_server("http://127.0.0.1:9"))


@pytest.mark.parametrize(
    ("row", "window"),
    [
        ({"max_model_len": 32768}, 32768),
        ({"meta": {"n_ctx_train": 131072, "n_ctx": 8192}}, 8192),
        ({"context_length": 200_000}, 200_000),
        ({"loaded_context_length": 4096, "max_context_length": 32768}, 4096),
        ({"max_model_len": "32768", "meta": []}, 0),
        ({"max_model_len": True, "n_ctx": -1}, 0),
    ],
)
def test_how_much_a_model_takes_is_what_its_server_says(row: dict[str, object], window: int) -> None:
    assert read_window(row) == window


async def test_a_server_with_one_model_is_asked_what_it_was_started_with() -> None:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        told = {"/v1/models": {"data": [{"id": "m"}]}, "/props": {"default_generation_settings": {"n_ctx": 4096}}}
        return web.json_response(told.get(request.path, {}), status=200 if request.path in told else 404)

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        host, port = runner.addresses[0][:2]
        found = await inspect_server(f"http://{host}:{port}")
    finally:
        await runner.cleanup()
    assert not isinstance(found, str) and found.entry["models"] == [{"id": "m", "contextWindow": 4096}]


async def test_an_ollama_is_spoken_to_in_its_own_words_with_the_room_its_models_have() -> None:
    shown = {
        "small": {
            "model_info": {"gemma3.context_length": 8192, "gemma3.block_count": 26},
            "capabilities": ["completion"],
        },
        "large": {"model_info": {"qwen3.context_length": 262_144}, "capabilities": ["completion", "vision"]},
    }

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/api/show":
            return web.json_response(shown[(await request.json())["model"]])
        found = {"/v1/models": {"data": [{"id": name} for name in shown]}}.get(request.path)
        return web.json_response(found) if found else web.Response(status=404)

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    root = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        for address in (root, f"{root}/v1"):
            server = await inspect_server(address)
            assert not isinstance(server, str)
            assert server.entry == {
                "baseUrl": root,
                "api": "ollama",
                "models": [
                    {"id": "small", "contextWindow": 8192},
                    {"id": "large", "contextWindow": MOST_CONTEXT, "input": ["text", "image"]},
                ],
            }
            assert server.list_assumed("large") == []
        assert await probe_windows(("small", "gone", "large"), root, timeout=60) == {
            "small": 8192,
            "large": MOST_CONTEXT,
        }
    finally:
        await runner.cleanup()
    assert await probe_windows(("small",), root, timeout=5) == {}
