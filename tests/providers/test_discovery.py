"""A server somebody named, and one word asked of a model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from palinurus.clock import SystemClock
from palinurus.config.load import load_config
from palinurus.providers.discovery import ADDRESS, SERVER, explain_silence, inspect_server, is_server_address
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
