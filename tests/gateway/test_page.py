"""Serving the built page: names, headers, caching, and what is not there."""

from __future__ import annotations

import gzip
import re
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from gateway.host import TOKEN
from palinurus.config.load import load_config
from palinurus.config.paths import PAGE_FOLDER
from palinurus.config.sections.gateway import PageLook
from palinurus.gateway.page import PAGE_POLICY, WebPage
from palinurus.gateway.server import GatewayServer

LIMIT = 160_000  # bytes of the first screen, packed


@pytest.fixture
async def browser(server: GatewayServer, tmp_path: Path) -> AsyncIterator[aiohttp.ClientSession]:
    (tmp_path / "index.html").write_text("<!doctype html><p>the page")
    (tmp_path / "app-0123ABCD.js").write_text("let x = 1;\n" * 100)
    (tmp_path / "stage.html").write_text('<script src="/stage-0123ABCD.js"></script>')
    (tmp_path / "secret.key").write_text("no")
    server.page = WebPage(str(tmp_path))
    async with aiohttp.ClientSession(f"http://127.0.0.1:{server.port}", auto_decompress=False) as session:
        yield session


VIEWS = re.findall(r"^  (\w+): \[\(\) => import", (Path(__file__).parents[2] / "web/src/control.ts").read_text(), re.M)


def test_the_pages_of_the_source_are_found() -> None:
    assert {"overview", "nodes", "fleet", "setup"} <= set(VIEWS)


@pytest.mark.parametrize("path", ["/", "/chat", "/chat/agent%3Amain%3Amain", *(f"/{name}" for name in VIEWS)])
async def test_every_address_of_the_page_is_the_page(browser: aiohttp.ClientSession, path: str) -> None:
    answer = await browser.get(path, headers={"Accept-Encoding": "identity"})
    assert (answer.status, await answer.text()) == (200, "<!doctype html><p>the page")
    assert answer.headers["Content-Security-Policy"] == PAGE_POLICY and "unsafe" not in PAGE_POLICY
    assert answer.headers["X-Frame-Options"] == "DENY" and answer.headers["Cache-Control"] == "no-cache"


async def test_files_are_packed_lasting_and_not_sent_twice(browser: aiohttp.ClientSession) -> None:
    answer = await browser.get("/app-0123ABCD.js", headers={"Accept-Encoding": "gzip"})
    assert answer.headers["Content-Encoding"] == "gzip" and "immutable" in answer.headers["Cache-Control"]
    assert answer.content_type == "text/javascript" and gzip.decompress(await answer.read()).startswith(b"let x")
    again = await browser.get("/app-0123ABCD.js", headers={"If-None-Match": answer.headers["ETag"]})
    assert (again.status, await again.read()) == (304, b"")
    assert (await browser.head("/")).status == 200


async def test_what_models_write_is_shown_on_a_page_of_no_origin(browser: aiohttp.ClientSession) -> None:
    answer = await browser.get("/stage.html")
    policy = answer.headers["Content-Security-Policy"]
    assert answer.status == 200 and answer.headers["X-Frame-Options"] == "SAMEORIGIN"
    assert policy.startswith("sandbox allow-scripts;") and "allow-same-origin" not in policy
    for rule in ("default-src 'none'", "connect-src 'none'", "form-action 'none'", "frame-ancestors 'self'"):
        assert rule in policy
    assert "'self'" not in policy.partition("img-src")[2].partition(";")[0]


@pytest.mark.parametrize("path", ["/app-FFFFFFFF.js", "/secret.key", "/..%2Fsecret.key", "/nothing", "/chat/a/b"])
async def test_what_is_not_there_is_not_there(browser: aiohttp.ClientSession, path: str) -> None:
    answer = await browser.get(path)
    assert answer.status == 404 and b"the page" not in await answer.read()


async def test_whoever_looks_at_an_unknown_address_with_a_browser_gets_a_page_that_says_so(
    browser: aiohttp.ClientSession,
) -> None:
    html = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    answer = await browser.get("/nothing/at-all", headers=html)
    assert (answer.status, await answer.text()) == (404, "<!doctype html><p>the page")
    assert answer.headers["Content-Security-Policy"] == PAGE_POLICY
    assert (await browser.post("/nothing", headers=html)).content_type == "application/json"
    assert b"the page" not in await (await browser.get("/v1/nothing", headers=html)).read()


async def test_the_docs_are_served_beside_it(
    server: GatewayServer, browser: aiohttp.ClientSession, tmp_path: Path
) -> None:
    server.page.site = str(tmp_path / "docs")
    missing = await browser.get("/docs/")
    assert missing.status == 404 and "make docs" in (await missing.read()).decode()
    (tmp_path / "docs" / "channels").mkdir(parents=True)
    (tmp_path / "docs" / "index.html").write_text("<p>all pages")
    (tmp_path / "docs" / "channels" / "irc.html").write_text("<p>IRC")
    (tmp_path / "docs" / "away.html").symlink_to(tmp_path / "secret.key")
    answer = await browser.get("/docs")  # sent on to /docs/: links on its pages are relative
    assert (answer.status, answer.url.path, await answer.read()) == (200, "/docs/", b"<p>all pages")
    assert "script-src 'self'" in answer.headers["Content-Security-Policy"]
    assert await (await browser.get("/docs/channels/irc.html")).read() == b"<p>IRC"
    for path in ("/docs/away.html", "/docs/..%2Findex.html", "/docs/a/b/c.html", "/docs/none.html"):
        assert (await browser.get(path)).status == 404, path


async def test_without_a_build_the_page_says_how_to_make_one(server: GatewayServer, tmp_path: Path) -> None:
    server.page = WebPage(str(tmp_path / "none"))
    async with aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as session:
        text = await (await session.get("/")).text()
    assert "make web" in text and "pal chat" in text and "<script" not in text and TOKEN not in text


def test_the_built_page_is_small() -> None:
    folder = Path(PAGE_FOLDER)
    if not (folder / "index.html").is_file():
        pytest.skip("the web page is not built: make web")
    named = re.findall(r'(?:src|href)="/([^"]+)"', (folder / "index.html").read_text())
    files = [(folder / name).read_bytes() for name in ("index.html", *named)]
    assert sum(len(gzip.compress(body)) for body in files) <= LIMIT


def test_what_is_no_colour_and_no_picture_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "palinurus.json").write_text(
        '{ui: {seamColor: "red; }", assistant: {avatar: "https://a.example/x.png"}}}'
    )
    loaded = load_config(str(tmp_path), {})
    assert loaded.settings.gateway.look == PageLook()
    assert [problem.path for problem in loaded.problems] == ["ui.seamColor", "ui.assistant.avatar"]
