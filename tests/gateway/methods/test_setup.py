"""The first run over the protocol: what is offered, what is tried, what is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from cli.migrate import homes
from gateway.whole import place
from palinurus.config.load import load_config
from palinurus.gateway.rpc import READ, MethodError
from palinurus.testing.model import say
from palinurus.testing.server import ModelServer, respond_status

KEY = "sk-test-0123456789abcdef"
NEW: dict[str, Any] = {"models": {}, "agents": {}}


async def test_a_new_install_is_told_apart_from_one_with_a_model(tmp_path: Path) -> None:
    async with place(tmp_path / "a", **NEW) as here:
        fresh = await here.call("setup.status")
        async with here.other(scopes=(READ,)) as reader:
            try:
                await reader.call("setup.status", {})
            except MethodError as refused:
                assert "operator.admin" in refused.message
            else:
                raise AssertionError("a reader may not set up")
    async with place(tmp_path / "b") as here:
        known = await here.call("setup.status")
    assert fresh["needed"] and fresh["model"] == "builtin/demo" and fresh["workspace"].startswith(("/", "~/"))
    assert not known["needed"] and known["model"] == "fake/m"
    first = fresh["providers"][0]
    assert first["id"] == "anthropic" and first["source"] == "" and first["models"][0]["name"]
    assert fresh["local"] == {"provider": "ollama", "name": "Ollama", "models": []}


async def test_a_key_is_tried_where_it_would_be_used_and_then_written(tmp_path: Path) -> None:
    home = tmp_path / "h"
    async with ModelServer([respond_status(401), say("Yes.")]) as server, place(home, **NEW) as here:
        base = server.url.removesuffix("/v1")
        chosen = {"provider": "anthropic", "key": KEY, "baseUrl": base}
        wrong = await here.call("setup.try", **{**chosen, "key": "sk-wrong"})
        assert not wrong["ok"] and wrong["problem"] and "sk-wrong" not in str(wrong)
        right = await here.call("setup.try", **chosen)
        assert right["ok"] and right["model"].startswith("anthropic/")
        assert "anthropic" not in (home / "palinurus.json").read_text()  # trying writes nothing
        done = await here.call("setup.apply", **chosen, workspace="~/elsewhere")
        asked = server.requests[-1]
    assert asked.headers["x-api-key"] == KEY and asked.body["max_tokens"] <= 64
    assert KEY not in str(done) and done["reload"] == "hybrid"
    made = load_config(str(home), {"HOME": "/home/ann"}).settings
    assert made.providers["anthropic"].api_key.reveal() == KEY and made.providers["anthropic"].base_url == base
    assert made.agents["main"].model == right["model"] and made.agents["main"].workspace.endswith("/elsewhere")
    assert (home / "palinurus.json").stat().st_mode & 0o077 == 0


async def test_models_on_this_machine_are_found(tmp_path: Path) -> None:
    async def tags(request: web.BaseRequest) -> web.Response:
        return web.json_response({"models": [{"name": "qwen3:8b"}, {"name": "gemma4"}]})

    runner = web.ServerRunner(web.Server(tags))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    base = f"http://127.0.0.1:{runner.addresses[0][1]}"
    async with place(tmp_path / "h", models={"providers": {"ollama": {"baseUrl": base}}}, agents={}) as here:
        found = await here.call("setup.status")
        await here.call("setup.apply", provider="ollama", model="gemma4")
    await runner.cleanup()
    assert found["local"]["models"] == ["qwen3:8b", "gemma4"]
    assert load_config(str(tmp_path / "h"), {}).settings.agents["main"].model == "ollama/gemma4"


async def test_a_server_is_asked_what_it_has(tmp_path: Path) -> None:
    async with ModelServer([say("Yes.")]) as server, place(tmp_path / "h", **NEW) as here:
        found = await here.call("setup.try", baseUrl=server.url)
        assert found["ok"] and found["model"].startswith("server/")
        await here.call("setup.apply", baseUrl=server.url)
        made = load_config(str(tmp_path / "h"), {}).settings
        assert made.agents["main"].model == found["model"] and made.providers["server"].base_url == server.url
        for wrong, why in (
            ({"baseUrl": "ftp://x"}, "looks like"),
            ({"baseUrl": "http://127.0.0.1:9"}, "no list of models"),
            ({}, "a provider or an address"),
            ({"provider": "nobody"}, "no provider"),
            ({"provider": "anthropic"}, "needs a key"),
            ({"provider": "ollama"}, "which model"),
            ({"provider": "builtin", "workspace": "a\0b"}, "cannot be the name of a folder"),
        ):
            assert why in (await here.refused("setup.try", **wrong)).message


async def test_what_another_program_has_is_offered_and_comes_over(tmp_path: Path) -> None:
    homes.make_openclaw(tmp_path / "user")
    home = tmp_path / "h"
    async with place(home, **NEW, environ={"HOME": str(tmp_path / "user")}) as here:
        (offer,) = (await here.call("import.status"))["homes"]
        assert offer["program"] == "openclaw" and offer["counts"]["sessions"] > 0 and offer["done"] == 0
        assert "report" not in offer and not (home / "agents/main/sessions/s-1.jsonl").exists()
        async with here.other(scopes=(READ,)) as reader:
            with pytest.raises(MethodError, match=r"operator\.admin"):
                await reader.call("import.start", {"program": "openclaw"})
        with pytest.raises(MethodError, match="nothing is known"):
            await here.call("import.start", program="dreams")
        report = await here.call("import.start", program="openclaw")
        assert report["new"] > 5 and "sk-very-secret" not in str(report)
        again = await here.call("import.start", program="openclaw")
        assert again["new"] == 0
        (after,) = (await here.call("import.status"))["homes"]
    assert after["done"] > 5 and after["report"]["parts"] == report["parts"]
    assert (home / "agents/main/sessions/s-1.jsonl").read_bytes().startswith(b'{"type": "session"')
