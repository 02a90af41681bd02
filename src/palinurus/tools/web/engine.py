"""Brave Search (api.search.brave.com): an index of its own, with a key."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import msgspec

# Search engines: one file of facts each, pure. `request` says what to ask, `read` what the answer means.


# What a search engine is to us, and what is asked of it. Values only; no network.

FRESHNESS = ("day", "week", "month", "year")


class WebQuery(msgspec.Struct, frozen=True):
    """What the model asked for; "" = not said. Dates are YYYY-MM-DD."""

    text: str
    count: int = 5
    country: str = ""
    language: str = ""
    freshness: str = ""
    after: str = ""
    before: str = ""


class EngineAccess(NamedTuple):
    """Where the engine is and who we are to it."""

    base: str
    key: str = ""
    model: str = ""


class EngineRequest(NamedTuple):
    """An HTTP request. With a body it is a POST of JSON."""

    url: str
    headers: Mapping[str, str]
    body: bytes | None = None


class WebHit(msgspec.Struct, frozen=True, omit_defaults=True):
    title: str
    url: str
    description: str = ""
    published: str = ""


class EngineAnswer(NamedTuple):
    """Hits; `answer` where the engine writes one itself."""

    hits: tuple[WebHit, ...]
    answer: str = ""


class SearchEngine(NamedTuple):
    """`pick` (rows and fields, see `page.pick`) is for engines that answer with a page: `read` then gets its rows."""

    name: str
    base: str
    request: Callable[[WebQuery, EngineAccess], EngineRequest]
    read: Callable[[Any], EngineAnswer]
    knows: frozenset[str] = frozenset()  # of country, language, freshness, dates
    pick: dict[str, Any] | None = None


def build_url(base: str, **params: str | int | None) -> str:
    """`base` with the parameters that are set."""
    said = {name: value for name, value in params.items() if value not in (None, "")}
    return f"{base}?{urlencode(said, quote_via=quote)}" if said else base


def build_post(address: str, body: dict[str, Any], **headers: str) -> EngineRequest:
    """A POST of JSON; what is None or "" is left out."""
    said = {name: value for name, value in body.items() if value not in (None, "")}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return EngineRequest(
        address, {"Content-Type": "application/json", "Accept": "application/json", **named}, msgspec.json.encode(said)
    )


def find_rows(value: Any, *path: str) -> list[dict[str, Any]]:
    """The list of tables at `path`; [] when the answer has another shape."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def make_hit(row: dict[str, Any], title: str, address: str, description: str, published: str = "") -> WebHit | None:
    """A hit from a row by its field names; None without an address of the web."""
    where = _text(row, address)
    if not where.lower().startswith(("http://", "https://")):
        return None
    return WebHit(
        _text(row, title) or where, where, _text(row, description), _text(row, published) if published else ""
    )


def collect_hits(found: list[WebHit | None]) -> tuple[WebHit, ...]:
    """Those that are there, each address once."""
    return tuple({one.url: one for one in found if one is not None}.values())


def _text(row: dict[str, Any], name: str) -> str:
    value = row.get(name)
    return value.strip() if isinstance(value, str) else ""


# DuckDuckGo's page without scripts (html.duckduckgo.com): needs no key, has no API; it may ask for a person.

_duckduckgo_FRESH = {"day": "d", "week": "w", "month": "m", "year": "y"}


def _duckduckgo_request(query: WebQuery, place: EngineAccess) -> EngineRequest:
    country, language = query.country.lower(), query.language.lower()
    region = f"{country}-{language or 'en'}" if country else ""
    fresh = _duckduckgo_FRESH.get(query.freshness, "")
    if query.after and query.before:
        fresh = f"{query.after}..{query.before}"
    return EngineRequest(build_url(f"{place.base}/html/", q=query.text, kl=region, df=fresh), {"Accept": "text/html"})


def _duckduckgo_read(answer: Any) -> EngineAnswer:
    rows = [row for row in answer if "result--ad" not in row.get("kind", "")] if isinstance(answer, list) else []
    return EngineAnswer(
        collect_hits([make_hit({**row, "url": _target(row.get("url", ""))}, "title", "url", "text") for row in rows])
    )


def _target(link: str) -> str:
    """Links lead through a counter; where to stands in its parameter."""
    full = f"https:{link}" if link.startswith("//") else link
    try:
        parts = urlsplit(full)
        inner = parse_qs(parts.query).get("uddg", [])
    except ValueError:
        return ""
    return inner[0] if inner and parts.path.startswith("/l/") else full


DUCKDUCKGO = SearchEngine(
    "duckduckgo",
    "https://html.duckduckgo.com",
    _duckduckgo_request,
    _duckduckgo_read,
    frozenset({"country", "language", "freshness", "dates"}),
    pick={
        "rows": "div.result",
        "fields": {"title": "a.result__a", "url": "a.result__a@href", "text": ".result__snippet", "kind": "@class"},
        "limit": 30,
    },
)


# Exa (api.exa.ai): search by meaning, with a key.


def _exa_request(query: WebQuery, place: EngineAccess) -> EngineRequest:
    body = {
        "query": query.text,
        "numResults": query.count,
        "userLocation": query.country.upper(),
        "startPublishedDate": query.after,
        "endPublishedDate": query.before,
        "contents": {"highlights": True},
    }
    return build_post(f"{place.base}/search", body, x_api_key=place.key)


def _exa_read(answer: Any) -> EngineAnswer:
    found = []
    for row in find_rows(answer, "results"):
        lit = row.get("highlights")
        told = " … ".join(one for one in lit if isinstance(one, str)) if isinstance(lit, list) else row.get("text")
        found.append(make_hit({**row, "told": told}, "title", "url", "told", "publishedDate"))
    return EngineAnswer(collect_hits(found))


EXA = SearchEngine("exa", "https://api.exa.ai", _exa_request, _exa_read, frozenset({"country", "dates"}))


# Perplexity (api.perplexity.ai): its search API; with a model configured, an answer with its sources instead.


def _date(text: str) -> str:
    """YYYY-MM-DD as they write it: MM/DD/YYYY."""
    year, _, rest = text.partition("-")
    return f"{rest.replace('-', '/')}/{year}" if rest else ""


def _perplexity_request(query: WebQuery, place: EngineAccess) -> EngineRequest:
    shared = {
        "search_recency_filter": query.freshness,
        "search_after_date_filter": _date(query.after),
        "search_before_date_filter": _date(query.before),
    }
    if place.model:
        body: dict[str, Any] = {"model": place.model, "messages": [{"role": "user", "content": query.text}], **shared}
        return build_post(f"{place.base}/chat/completions", body, Authorization=f"Bearer {place.key}")
    language = [query.language.lower()] if query.language else None
    body = {"query": query.text, "max_results": query.count, "country": query.country.upper(), **shared}
    body["search_language_filter"] = language
    return build_post(f"{place.base}/search", body, Authorization=f"Bearer {place.key}")


def _perplexity_read(answer: Any) -> EngineAnswer:
    choices = find_rows(answer, "choices")
    if not choices:
        return EngineAnswer(
            collect_hits([make_hit(row, "title", "url", "snippet", "date") for row in find_rows(answer, "results")])
        )
    message = choices[0].get("message")
    told = message.get("content") if isinstance(message, dict) else ""
    named = [make_hit(row, "title", "url", "snippet", "date") for row in find_rows(answer, "search_results")]
    cited = answer.get("citations")
    plain = [WebHit(one, one) for one in cited if isinstance(one, str)] if isinstance(cited, list) else []
    return EngineAnswer(collect_hits([*named]) or tuple(plain), told if isinstance(told, str) else "")


PERPLEXITY = SearchEngine(
    "perplexity",
    "https://api.perplexity.ai",
    _perplexity_request,
    _perplexity_read,
    frozenset({"country", "language", "freshness", "dates"}),
)


# SearXNG: a search engine one runs oneself. Its settings must allow the format json.


def _searxng_request(query: WebQuery, place: EngineAccess) -> EngineRequest:
    address = build_url(
        f"{place.base}/search",
        q=query.text,
        format="json",
        language=query.language,
        time_range=query.freshness,
    )
    return EngineRequest(address, {"Accept": "application/json"})


def _searxng_read(answer: Any) -> EngineAnswer:
    return EngineAnswer(
        collect_hits(
            [make_hit(row, "title", "url", "content", "publishedDate") for row in find_rows(answer, "results")]
        )
    )


SEARXNG = SearchEngine("searxng", "", _searxng_request, _searxng_read, frozenset({"language", "freshness"}))


# Tavily (api.tavily.com): search made for agents, with a key.


def _tavily_request(query: WebQuery, place: EngineAccess) -> EngineRequest:
    body = {
        "query": query.text,
        "max_results": query.count,
        "time_range": query.freshness,
        "start_date": query.after,
        "end_date": query.before,
    }
    return build_post(f"{place.base}/search", body, Authorization=f"Bearer {place.key}")


def _tavily_read(answer: Any) -> EngineAnswer:
    told = answer.get("answer") if isinstance(answer, dict) else None
    found = [make_hit(row, "title", "url", "content", "published_date") for row in find_rows(answer, "results")]
    return EngineAnswer(collect_hits(found), told if isinstance(told, str) else "")


TAVILY = SearchEngine(
    "tavily", "https://api.tavily.com", _tavily_request, _tavily_read, frozenset({"freshness", "dates"})
)


_FRESH = {"day": "pd", "week": "pw", "month": "pm", "year": "py"}
_MARKUP = re.compile(r"</?strong>")


def _request(query: WebQuery, place: EngineAccess) -> EngineRequest:
    fresh = _FRESH.get(query.freshness, "")
    if query.after or query.before:
        fresh = f"{query.after or '1990-01-01'}to{query.before or '2099-12-31'}"
    address = build_url(
        f"{place.base}/res/v1/web/search",
        q=query.text,
        count=query.count,
        country=query.country.upper(),
        search_lang=query.language.lower(),
        freshness=fresh,
    )
    return EngineRequest(address, {"X-Subscription-Token": place.key, "Accept": "application/json"})


def _read(answer: Any) -> EngineAnswer:
    found = []
    for row in find_rows(answer, "web", "results"):
        clean = {k: _MARKUP.sub("", v) if isinstance(v, str) else v for k, v in row.items()}
        found.append(make_hit(clean, "title", "url", "description", "age"))
    return EngineAnswer(collect_hits(found))


BRAVE = SearchEngine(
    "brave",
    "https://api.search.brave.com",
    _request,
    _read,
    frozenset({"country", "language", "freshness", "dates"}),
)
