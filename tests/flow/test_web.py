"""The agent and the web, whole: a page of an opened loopback server is read, one that is not is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flow.test_app import CONFIG, running
from palinurus.core.types.inbound import Sender
from palinurus.testing.model import ScriptedModel, call_tools, say
from support import inbound
from tools.web.kit import Canary, Site


@pytest.fixture
async def site() -> Any:
    made = Site()
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
async def canary() -> Any:
    made = Canary()
    await made.start()
    yield made
    await made.stop()
    assert made.hits == 0


def results(model: ScriptedModel) -> list[Any]:
    return [m for m in model.requests[-1].messages if type(m).__name__ == "ToolResult"]


@pytest.mark.seed(295)
async def test_an_opened_server_is_fetched_and_another_is_refused_with_the_line_that_would_open_it(
    tmp_path: Path, site: Site, canary: Canary
) -> None:
    site.routes["/page"] = "<title>Opened</title><main><p>Hello from loopback.</p></main>"
    model = ScriptedModel(
        [
            call_tools(
                ("web_fetch", {"url": site.url("/page")}), ("web_fetch", {"url": f"http://localhost:{canary.port}/"})
            ),
            say("done"),
        ]
    )
    tools = {"web": {"fetch": {"allowedHosts": [site.entry]}}}
    async with running(tmp_path / "h", model, tools=tools) as app:
        row = await app.wait((await app.submit(inbound("read it", sender=Sender("me", owner=True)))).id)
        assert row.note == "done"
    opened, closed = results(model)
    told = json.loads(opened.text)
    assert told["status"] == 200 and "Hello from loopback." in told["text"] and "UNTRUSTED" in told["text"]
    assert closed.isError and f'tools.web.fetch.allowedHosts: ["localhost:{canary.port}"]' in closed.text
    offered = {tool.name for tool in model.requests[0].tools}
    assert {"web_fetch", "web_search"} <= offered and "image" not in offered  # no model sees here


async def test_nothing_is_open_by_default(tmp_path: Path, canary: Canary) -> None:
    urls = [f"http://127.0.0.1:{canary.port}/", f"http://[::1]:{canary.port}/", "http://169.254.169.254/"]
    model = ScriptedModel([call_tools(*(("web_fetch", {"url": url}) for url in urls)), say("done")])
    async with running(tmp_path / "h", model) as app:
        await app.wait((await app.submit(inbound("read it"))).id)
    assert [result.isError for result in results(model)] == [True] * 3


@pytest.mark.seed(276)
async def test_the_image_tool_asks_the_model_that_sees(tmp_path: Path) -> None:
    provider = {
        **CONFIG["models"]["providers"]["fake"],
        "models": [{"id": "m"}, {"id": "eyes", "input": ["text", "image"]}],
    }
    model = ScriptedModel([call_tools(("image", {"image": "a.png"})), say("a cat"), say("It shows a cat.")])
    async with running(tmp_path / "h", model, models={"providers": {"fake": provider}}) as app:
        workspace = Path(app.settings.agents["main"].workspace)
        (workspace / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"\x00" * 30)
        row = await app.wait((await app.submit(inbound("what is in a.png?", sender=Sender("human", owner=True)))).id)
        assert row.note == "It shows a cat."
    assert [str(r.model.ref) for r in model.requests] == ["fake/m", "fake/eyes", "fake/m"]
    assert "a cat" in results(model)[0].text and not results(model)[0].isError
