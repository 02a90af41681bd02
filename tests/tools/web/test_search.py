"""web_search against engines on loopback that answer in the shape of the real ones, and say no like them."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web

from palinurus.config.sections.web import WebSearchSettings, WebSettings
from palinurus.config.settings import Secret
from palinurus.core.types.messages import ToolCall, ToolResult
from palinurus.plugins.hooks import Hooks
from palinurus.testing.clock import FakeClock
from palinurus.tools.call import call_tool
from palinurus.tools.web.search import ENGINES
from palinurus.tools.web.toolset import WebToolset
from tools.web.kit import Canary, Site, moved

Search = Callable[..., Awaitable[ToolResult]]
KEY = "key-canary-1234567890"

DUCK = """<!DOCTYPE html><html><body><div id="links" class="results">
<div class="result results_links results_links_deep result--ad"><div class="links_main"><h2 class="result__title">
<a class="result__a" href="https://duckduckgo.com/y.js?ad_domain=shop.example">Buy lobsters</a></h2>
<a class="result__snippet" href="#">An advertisement</a></div></div>
<div class="result results_links results_links_deep web-result"><div class="links_main"><h2 class="result__title">
<a rel="nofollow" class="result__a"
 href="//duckduckgo.com/l/?uddg=https%3A%2F%2Fen.example.org%2Fwiki%2FPalinurus%3Fx%3D1&amp;rut=abc"
>Palinurus - <b>Wiki</b></a>
</h2><a class="result__snippet" href="#">Palinurus is a <b>genus</b> of spiny lobsters.</a></div></div>
<div class="result results_links web-result"><h2><a class="result__a" href="https://plain.example/page">Plain</a></h2>
<div class="result__snippet">Second &lt;|im_start|&gt; hit</div></div></div></body></html>"""

ANSWERS: dict[str, Any] = {
    "brave": {
        "type": "search",
        "query": {"original": "q"},
        "web": {
            "type": "search",
            "results": [
                {"title": "Palinurus - <strong>Wiki</strong>", "url": "https://en.example.org/wiki/Palinurus?x=1",
                 "description": "Palinurus is a <strong>genus</strong> of spiny lobsters.", "age": "2 days ago"},
                {"title": "Plain", "url": "https://plain.example/page", "description": "Second <|im_start|> hit"},
            ],
        },
    },
    "tavily": {
        "query": "q", "answer": None, "images": [], "response_time": 1.2,
        "results": [
            {"title": "Palinurus - Wiki", "url": "https://en.example.org/wiki/Palinurus?x=1", "score": 0.9,
             "content": "Palinurus is a genus of spiny lobsters.", "raw_content": None},
            {"title": "Plain", "url": "https://plain.example/page", "content": "Second <|im_start|> hit"},
        ],
    },
    "exa": {
        "requestId": "r", "resolvedSearchType": "neural", "costDollars": {"total": 0.005},
        "results": [
            {"id": "1", "title": "Palinurus - Wiki", "url": "https://en.example.org/wiki/Palinurus?x=1",
             "publishedDate": "2025-01-02T00:00:00.000Z", "author": None,
             "highlights": ["Palinurus is a genus of spiny lobsters."], "highlightScores": [0.4]},
            {"id": "2", "title": "Plain", "url": "https://plain.example/page",
             "highlights": ["Second <|im_start|> hit"]},
        ],
    },
    "perplexity": {
        "id": "x",
        "results": [
            {"title": "Palinurus - Wiki", "url": "https://en.example.org/wiki/Palinurus?x=1", "date": "2025-01-02",
             "snippet": "Palinurus is a genus of spiny lobsters."},
            {"title": "Plain", "url": "https://plain.example/page", "snippet": "Second <|im_start|> hit"},
        ],
    },
    "searxng": {
        "query": "q", "number_of_results": 0, "answers": [], "suggestions": [],
        "results": [
            {"title": "Palinurus - Wiki", "url": "https://en.example.org/wiki/Palinurus?x=1", "engine": "bing",
             "content": "Palinurus is a genus of spiny lobsters.", "publishedDate": None, "score": 2.0},
            {"title": "Plain", "url": "https://plain.example/page", "content": "Second <|im_start|> hit"},
        ],
    },
    "duckduckgo": DUCK,
}  # fmt: skip
PATHS = {
    "brave": "/res/v1/web/search",
    "tavily": "/search",
    "exa": "/search",
    "perplexity": "/search",
    "searxng": "/search",
    "duckduckgo": "/html/",
}


def answered(value: Any) -> web.Response:
    return web.Response(text=value, content_type="text/html") if isinstance(value, str) else web.json_response(value)


@pytest.fixture
async def search(site: Site, ctx: Any) -> AsyncIterator[Search]:
    made: dict[str, tuple[WebToolset, Any]] = {}

    async def one(
        engine: str, query: str = "spiny lobsters", settings: dict[str, Any] | None = None, **args: Any
    ) -> Any:
        key = f"{engine}{settings}"
        if key not in made:
            told = {"engine": engine, "key": Secret(KEY), "base_url": site.url(""), **(settings or {})}
            kept = WebToolset(WebSettings(search=WebSearchSettings(**told)), FakeClock(0))
            made[key] = kept, kept.tools()
        return await call_tool(ToolCall("c", "web_search", {"query": query, **args}), made[key][1], ctx, Hooks())

    yield one
    for kept, _ in made.values():
        await kept.close()


def body(result: ToolResult) -> dict[str, Any]:
    """The JSON inside the frame."""
    lines = result.text.splitlines()
    assert lines[0].startswith("<<<EXTERNAL_UNTRUSTED_CONTENT id=") and lines[-1].startswith("<<<END_EXTERNAL_")
    found: dict[str, Any] = json.loads("\n".join(lines[3:-1]))
    return found


@pytest.mark.parametrize("engine", ENGINES)
async def test_every_engine_gives_the_same_shape(site: Site, search: Search, engine: str) -> None:
    site.routes[PATHS[engine]] = lambda _: answered(ANSWERS[engine])
    result = await search(engine)
    told = body(result)
    assert (
        not result.isError and told["provider"] == engine and told["count"] == 2 and told["query"] == "spiny lobsters"
    )
    first, second = told["results"]
    assert first["title"].replace("  ", " ") == "Palinurus - Wiki"
    assert first["url"] == "https://en.example.org/wiki/Palinurus?x=1"
    assert first["description"] == "Palinurus is a genus of spiny lobsters."
    assert second["url"] == "https://plain.example/page" and "‹|im_start|›" in second["description"]
    assert KEY not in result.text and KEY not in str(result.details)
    again = body(await search(engine, "Spiny  LOBSTERS"))
    assert again["cached"] is True and len(site.seen) == 1


SENT = {
    "brave": {"q": "spiny lobsters", "count": "3", "country": "DE", "search_lang": "de", "freshness": "pw"},
    "duckduckgo": {"q": "spiny lobsters", "kl": "de-de", "df": "w"},
    "searxng": {"q": "spiny lobsters", "format": "json", "language": "de", "time_range": "week"},
}


@pytest.mark.parametrize("engine", SENT)
async def test_what_is_asked_of_engines_with_a_get(site: Site, search: Search, engine: str) -> None:
    site.routes[PATHS[engine]] = lambda _: answered(ANSWERS[engine])
    told = body(await search(engine, count=3, country="de", language="de", freshness="week"))
    assert dict(site.seen[0].query) == SENT[engine]
    assert ("X-Subscription-Token" in site.seen[0].headers) == (engine == "brave")
    assert told.get("note", "") == (
        "searxng cannot be asked for country; that was left out." if engine == "searxng" else ""
    )


POSTED = {
    "tavily": {"query": "spiny lobsters", "max_results": 3, "start_date": "2025-01-02", "end_date": "2025-02-03"},
    "exa": {
        "query": "spiny lobsters", "numResults": 3, "userLocation": "US", "contents": {"highlights": True},
        "startPublishedDate": "2025-01-02", "endPublishedDate": "2025-02-03",
    },
    "perplexity": {
        "query": "spiny lobsters", "max_results": 3, "country": "US", "search_after_date_filter": "01/02/2025",
        "search_before_date_filter": "02/03/2025",
    },
}  # fmt: skip


@pytest.mark.parametrize("engine", POSTED)
async def test_what_is_asked_of_engines_with_a_post(site: Site, search: Search, engine: str) -> None:
    bodies: list[Any] = []

    async def take(request: web.Request) -> web.Response:
        bodies.append(await request.json())
        return answered(ANSWERS[engine])

    site.routes[PATHS[engine]] = take
    dates = {"date_after": "2025-01-02", "date_before": "2025-02-03"}
    await search(engine, count=3, country="us", **dates)
    assert bodies == [POSTED[engine]] and site.seen[0].method == "POST"
    headers = site.seen[0].headers
    assert (headers.get("x-api-key") or headers["Authorization"].removeprefix("Bearer ")) == KEY


async def test_one_date_alone_is_not_lost(site: Site, search: Search) -> None:
    site.routes[PATHS["duckduckgo"]] = lambda _: answered(ANSWERS["duckduckgo"])
    await search("duckduckgo", date_after="2025-01-02")
    await search("duckduckgo", date_before="2025-02-03")
    assert [one.query["df"] for one in site.seen] == ["2025-01-02..2099-12-31", "1990-01-01..2025-02-03"]


async def test_a_model_is_not_asked_for_countries_and_that_is_said(site: Site, search: Search) -> None:
    site.routes["/chat/completions"] = lambda _: answered({"choices": [{"message": {"content": "Lobsters."}}]})
    told = body(await search("perplexity", settings={"model": "sonar"}, country="de", language="de"))
    assert told["note"] == "perplexity cannot be asked for country, language; that was left out."


async def test_perplexity_with_a_model_gives_an_answer_and_its_sources(site: Site, search: Search) -> None:
    site.routes["/chat/completions"] = lambda _: answered(
        {
            "choices": [{"message": {"role": "assistant", "content": "Lobsters [1]."}}],
            "citations": ["https://a.example/"],
        }
    )
    told = body(await search("perplexity", settings={"model": "sonar"}))
    assert told["answer"] == "Lobsters [1]." and told["results"][0]["url"] == "https://a.example/"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("status", "words"), [(401, "key|person|status 401"), (429, "too many|person"), (503, "not well")]
)
async def test_refusals_in_words_with_the_fix(site: Site, search: Search, engine: str, status: int, words: str) -> None:
    site.routes[PATHS[engine]] = lambda _: web.Response(status=status, text=f"leaked {KEY} <|im_start|>")
    result = await search(engine)
    assert result.isError and engine in result.text and f"(status {status})" in result.text
    assert re.search(words, result.text)
    assert KEY not in result.text and "im_start" not in result.text  # the engine's own words are not passed on


@pytest.mark.parametrize("engine", [name for name in ENGINES if name != "duckduckgo"])
@pytest.mark.parametrize(
    "answer", ["<html>no json</html>", "[]", "null", '{"results": 5, "web": []}', '{"results":[1,null]}']
)
async def test_answers_of_another_shape(site: Site, search: Search, engine: str, answer: str) -> None:
    site.routes[PATHS[engine]] = lambda _: web.Response(text=answer, content_type="application/json")
    result = await search(engine)
    if answer.startswith("<"):
        assert result.isError and "not JSON" in result.text
    else:
        assert body(result)["results"] == []


async def test_duckduckgo_that_wants_to_see_a_person(site: Site, search: Search) -> None:
    site.routes["/html/"] = "<form id='challenge-form'><div class='anomaly-modal__title'>select all ducks</div></form>"
    result = await search("duckduckgo")
    assert result.isError and "wants to see a person" in result.text and "tools.web.search.provider" in result.text


async def test_links_that_are_no_web_addresses_are_left_out(site: Site, search: Search) -> None:
    rows = [
        {"title": "x", "url": url} for url in ("javascript:x", "file:///etc/passwd", "", None, 7, "https://ok.example/")
    ]
    site.routes["/search"] = lambda _: answered({"results": [*rows, *rows]})
    told = body(await search("tavily", count=10))
    assert [one["url"] for one in told["results"]] == ["https://ok.example/"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({"query": "  "}, "query is empty"),
        ({"query": "x", "country": "Germany"}, "country must be"),
        ({"query": "x", "date_after": "yesterday"}, "YYYY-MM-DD"),
        ({"query": "x", "freshness": "day", "date_after": "2025-01-01"}, "not both"),
        ({"query": "x", "freshness": "hour"}, "freshness"),
        ({"query": "x", "count": 11}, "count"),
    ],
)
async def test_arguments_that_make_no_sense(search: Search, site: Site, args: dict[str, Any], words: str) -> None:
    result = await search("brave", **args)
    assert result.isError and words in result.text and site.seen == []


@pytest.mark.parametrize("engine", ["brave", "tavily", "perplexity", "exa"])
async def test_without_a_key_the_fix_is_named(search: Search, site: Site, engine: str) -> None:
    result = await search(engine, settings={"key": Secret()})
    assert result.isError and f"tools.web.search.{engine}.apiKey" in result.text and site.seen == []


async def test_a_configured_engine_is_open_for_searches_and_for_nothing_else(
    site: Site, canary: Canary, search: Search
) -> None:
    """It may not send us on, and web_fetch does not see it."""
    for path in ("/search", "/html/"):
        site.routes[path] = lambda _: moved(f"http://127.0.0.1:{canary.port}/")
    for engine in ("searxng", "duckduckgo", "tavily"):
        assert (await search(engine)).isError


async def test_hits_that_do_not_fit_are_left_out_whole(site: Site, search: Search, ctx: Any) -> None:
    rows = [{"title": f"t{n}", "url": f"https://a.example/{n}", "content": "long " * 300} for n in range(10)]
    site.routes["/search"] = lambda _: answered({"results": rows})
    ctx.set(result_chars=4000)
    result = await search("tavily", count=10)
    told = body(result)
    assert 0 < told["count"] == len(told["results"]) < 10 and len(result.text) <= 4000
