"""Files for faces: only of workspaces, only of shown kinds, whatever the path looks like."""

from __future__ import annotations

import os
from pathlib import Path

import aiohttp
import msgspec
import pytest

from gateway.host import FakeHost, settings


@pytest.fixture
def work(tmp_path: Path, host: FakeHost) -> Path:
    work = tmp_path / "work"
    work.mkdir()
    base = settings(str(tmp_path))
    agents = {name: msgspec.structs.replace(a, workspace=str(work)) for name, a in base.agents.items()}
    host.settings = msgspec.structs.replace(base, agents=agents)
    (work / "cat.png").write_bytes(b"PNG")
    (work / "page.html").write_bytes(b"<script>")
    (work / "page.svg").write_bytes(b"<svg onload=x>")
    (tmp_path / "out.png").write_bytes(b"secret")
    os.symlink(tmp_path / "out.png", work / "link.png")
    os.symlink(work / "page.html", work / "fake.png")
    os.mkfifo(work / "pipe.png")
    (tmp_path / "work2").mkdir()
    (tmp_path / "work2" / "x.png").write_bytes(b"secret")
    return work


async def test_a_picture_of_the_workspace_is_shown(http: aiohttp.ClientSession, work: Path) -> None:
    for source in ("cat.png", str(work / "cat.png"), f"file://{work}/cat.png"):
        async with http.get("/__openclaw__/assistant-media", params={"source": source}) as answer:
            assert (answer.status, answer.content_type, await answer.read()) == (200, "image/png", b"PNG")
            assert "sandbox" in answer.headers["Content-Security-Policy"]
    async with http.get("/__openclaw__/assistant-media", params={"source": "cat.png", "meta": "1"}) as answer:
        assert await answer.json() == {"available": True}


@pytest.mark.parametrize(
    "source",
    [
        "",
        "page.html",
        "page.svg",
        "../out.png",
        "link.png",
        "fake.png",
        "pipe.png",
        "../work2/x.png",
        "no.png",
        "a\0.png",
    ],
)
async def test_everything_else_is_not(http: aiohttp.ClientSession, work: Path, source: str) -> None:
    async with http.get("/__openclaw__/assistant-media", params={"source": source}) as answer:
        assert answer.status == 404
    async with http.get("/__openclaw__/assistant-media", params={"source": source, "meta": "1"}) as answer:
        assert (await answer.json())["available"] is False


async def test_what_the_page_asks_first(http: aiohttp.ClientSession, work: Path) -> None:
    async with http.get("/control-ui-config.json") as answer:
        told = await answer.json()
    assert (told["assistantAgentId"], told["basePath"]) == ("main", "")
    async with http.get("/avatar/main?meta=1") as answer:
        assert (await answer.json())["avatarUrl"] is None
    async with http.get("/avatar/nobody?meta=1") as answer:
        assert answer.status == 404
