"""web_fetch through the one door of tools: what comes back, how much of it, and that it is framed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
import pytest
from aiohttp import web

from palinurus.config.sections.web import WebFetchSettings, WebSettings
from palinurus.core.types.messages import ToolCall, ToolResult
from palinurus.plugins.hooks import Hooks
from palinurus.testing.clock import FakeClock
from palinurus.tools.call import call_tool
from palinurus.tools.web.reader import PDF_MODULE, is_usable
from palinurus.tools.web.toolset import WebToolset
from tools.web.kit import Canary, Site, moved
from tools.web.pages import HOSTILE, SECRET

Fetch = Callable[..., Awaitable[ToolResult]]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(1_700_000_000_000)


@pytest.fixture
async def fetch(site: Site, ctx: Any, clock: FakeClock) -> AsyncIterator[Fetch]:
    """`await fetch(url, …)`; `settings=` changes tools.web.fetch."""
    made: dict[str, WebToolset] = {}
    tools: dict[str, Any] = {}

    async def one(url: str, settings: dict[str, Any] | None = None, **args: Any) -> ToolResult:
        key = json.dumps(settings)
        if key not in made:
            chosen = msgspec.structs.replace(WebFetchSettings(rules=site.rules), **(settings or {}))
            made[key] = WebToolset(WebSettings(fetch=chosen), clock)
            tools[key] = made[key].tools()
        return await call_tool(ToolCall("c", "web_fetch", {"url": url, **args}), tools[key], ctx, Hooks())

    yield one
    for each in made.values():
        await each.close()


def body(result: ToolResult) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(result.text)
    return found


async def test_a_page_comes_back_as_markdown_in_a_frame(site: Site, fetch: Fetch) -> None:
    site.routes["/p"] = "<title>A page</title><main><h1>Hi</h1><p>text <a href='/x'>link</a></p></main>"
    result = await fetch(site.url("/p"))
    told = body(result)
    assert not result.isError and told == result.details
    assert told["url"] == told["finalUrl"] == site.url("/p") and told["status"] == 200
    assert told["contentType"] == "text/html" and told["extractMode"] == "markdown" and told["extractor"] == "readable"
    assert told["externalContent"] == {"untrusted": True, "source": "web_fetch", "wrapped": True}
    assert told["truncated"] is False and told["fetchedAt"] == 1_700_000_000_000
    lines = told["text"].splitlines()
    assert lines[0].startswith("<<<EXTERNAL_UNTRUSTED_CONTENT id=") and lines[-1].startswith("<<<END_EXTERNAL_")
    assert f"Title: A page\n\n# Hi\n\ntext [link]({site.url('/x')})" in told["text"]
    plain = body(await fetch(site.url("/p"), extractMode="text"))
    assert "Title: A page\n\nHi\n\ntext link" in plain["text"]


async def test_each_result_has_its_own_boundary_and_counts_as_web(site: Site, ctx: Any, fetch: Fetch) -> None:
    first, second = body(await fetch(site.url("/a"))), body(await fetch(site.url("/a")))
    assert first["text"].splitlines()[0] != second["text"].splitlines()[0]
    web_tools = WebToolset(WebSettings(fetch=WebFetchSettings(rules=site.rules)), FakeClock(0))
    output = await web_tools.tools()["web_fetch"].run(ctx, url=site.url("/a"))
    assert output.source == "web"
    await web_tools.close()


async def test_a_page_is_asked_for_once_while_it_is_fresh(site: Site, fetch: Fetch, clock: FakeClock) -> None:
    assert "cached" not in body(await fetch(site.url("/a")))
    assert body(await fetch(site.url("/a"), maxChars=500))["cached"] is True
    assert len(site.seen) == 1
    await clock.advance(901)
    assert "cached" not in body(await fetch(site.url("/a")))
    assert len(site.seen) == 2
    for _ in range(2):
        await fetch(site.url("/a"), settings={"cache": 0.0})
    assert len(site.seen) == 4


@pytest.mark.parametrize(
    ("kind", "data", "extractor", "part"),
    [
        ("application/json", b'{"b":[1,{"c":"\xc3\xa9"}]}', "json", '{\n  "b": [\n    1,\n    {\n      "c": "é"'),
        ("application/problem+json", b'{"a":1}', "json", '{\n  "a": 1\n}'),
        ("application/json", b"{not json", "json", "{not json"),
        ("text/plain", b"just text\r\nmore", "raw", "just text\nmore"),
        ("text/markdown", b"# md", "markdown", "# md"),
        ("text/csv", b"a,b\n1,2", "raw", "a,b\n1,2"),
        ("application/xml", b"<a>1</a>", "raw", "<a>1</a>"),
        ("application/octet-stream", b"<!DOCTYPE html><p>page</p>", "readable", "page"),
        ("text/plain; charset=iso-8859-1", b"caf\xe9", "raw", "café"),
        ("text/html; charset=shift_jis", "<p>日本</p>".encode("shift_jis"), "readable", "日本"),
        ("text/html", "<meta charset=koi8-r><p>Привет</p>".encode("koi8-r"), "readable", "Привет"),
        ("text/html; charset=zip", b"<p>plain</p>", "readable", "plain"),
        ("text/plain", b"\xff\xfeh\x00i\x00", "raw", "hi"),
    ],
)
async def test_kinds_of_content(site: Site, fetch: Fetch, kind: str, data: bytes, extractor: str, part: str) -> None:
    site.routes["/"] = lambda _: web.Response(body=data, headers={"Content-Type": kind})
    told = body(await fetch(site.url("/")))
    assert told["extractor"] == extractor and part in told["text"]


@pytest.mark.parametrize("kind", ["image/png", "video/mp4", "application/zip", "application/x-executable", "font/woff"])
async def test_what_is_no_text_is_not_read(site: Site, fetch: Fetch, kind: str) -> None:
    site.routes["/"] = lambda _: web.Response(body=b"\x00" * 100, headers={"Content-Type": kind})
    result = await fetch(site.url("/"))
    assert result.isError and kind in result.text


async def test_binary_under_a_text_type_is_not_shown(site: Site, fetch: Fetch) -> None:
    site.routes["/"] = lambda _: web.Response(body=b"\x7fELF\x00\x00", headers={"Content-Type": "text/plain"})
    result = await fetch(site.url("/"))
    assert result.isError and "not text" in result.text


async def test_length_is_what_was_asked_within_caps_and_room(site: Site, fetch: Fetch, ctx: Any) -> None:
    site.routes["/"] = lambda _: web.Response(text="wörd\n" * 30_000, content_type="text/plain")
    ctx.set(result_chars=60_000)
    assert body(await fetch(site.url("/"), maxChars=1000))["length"] == 1000
    told = body(await fetch(site.url("/")))
    assert (
        told["length"] == 20_000
        and told["rawLength"] == 150_000
        and told["truncated"]
        and "left out" in told["warning"]
    )
    assert body(await fetch(site.url("/"), maxChars=10**9))["length"] <= 50_000
    assert (await fetch(site.url("/"), maxChars=1)).isError  # 100 at least
    ctx.set(result_chars=4000)
    small = await fetch(site.url("/"))
    assert len(small.text) <= 4000 and body(small)["text"].splitlines()[-1].startswith("<<<END_EXTERNAL")
    cut = body(await fetch(site.url("/"), settings={"size": 2048}))
    assert cut["truncated"] and "maxResponseBytes" in cut["warning"]


@pytest.mark.parametrize("status", [404, 403, 500])
async def test_errors_of_the_server_are_errors_with_their_page(site: Site, fetch: Fetch, status: int) -> None:
    site.routes["/"] = lambda _: web.Response(status=status, text="<p>sorry</p>", content_type="text/html")
    result = await fetch(site.url("/"))
    assert result.isError and body(result)["status"] == status and "sorry" in result.text
    assert "cached" not in body(await fetch(site.url("/")))


async def test_a_server_that_was_not_opened_is_refused_also_behind_a_redirect(
    site: Site, canary: Canary, fetch: Fetch
) -> None:
    there = f"http://127.0.0.1:{canary.port}/"
    site.routes["/"] = lambda _: moved(there)
    for url in (there, site.url("/"), "file:///etc/passwd"):
        result = await fetch(url)
        assert result.isError and result.text.startswith("Not fetched: ")
    assert f'tools.web.fetch.allowedHosts: ["127.0.0.1:{canary.port}"]' in (await fetch(there)).text


async def test_hostile_pages_one_after_another(site: Site, fetch: Fetch) -> None:
    for number, page in enumerate(HOSTILE.values()):
        site.routes[f"/{number}"] = lambda _, page=page: web.Response(body=page, content_type="text/html")
        result = await fetch(site.url(f"/{number}"))
        text = body(result)["text"]
        assert "visible" in text and SECRET not in text.replace("\\", "")
        assert text.count("EXTERNAL_UNTRUSTED_CONTENT") == 2
        assert "<|im_start|>" not in text and "</tool_result>" not in text and "[[" not in text


async def test_turned_off_there_is_no_tool() -> None:
    tools = WebToolset(WebSettings(fetch=WebFetchSettings(enabled=False)), FakeClock(0)).tools()
    assert "web_fetch" not in tools and "web_search" in tools


@pytest.mark.skipif(not is_usable(PDF_MODULE), reason="pypdf is not installed")
async def test_a_pdf_is_read_page_by_page(site: Site, fetch: Fetch) -> None:
    from tools.web.paper import pdf

    site.routes["/"] = lambda _: web.Response(body=pdf("First page", "Second"), content_type="application/pdf")
    told = body(await fetch(site.url("/")))
    assert told["extractor"] == "pdf" and "[Page 1 of 2]\nFirst page" in told["text"] and "Second" in told["text"]
