"""DuckDuckGo's page without scripts (html.duckduckgo.com): needs no key, has no API; it may ask for a person."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

from palinurus.tools.web.engines.engine import (
    EngineAccess,
    EngineAnswer,
    EngineRequest,
    SearchEngine,
    WebQuery,
    build_url,
    collect_hits,
    make_hit,
)

_FRESH = {"day": "d", "week": "w", "month": "m", "year": "y"}


def _request(query: WebQuery, place: EngineAccess) -> EngineRequest:
    country, language = query.country.lower(), query.language.lower()
    region = f"{country}-{language or 'en'}" if country else ""
    fresh = _FRESH.get(query.freshness, "")
    if query.after and query.before:
        fresh = f"{query.after}..{query.before}"
    return EngineRequest(build_url(f"{place.base}/html/", q=query.text, kl=region, df=fresh), {"Accept": "text/html"})


def _read(answer: Any) -> EngineAnswer:
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
    _request,
    _read,
    frozenset({"country", "language", "freshness", "dates"}),
    pick={
        "rows": "div.result",
        "fields": {"title": "a.result__a", "url": "a.result__a@href", "text": ".result__snippet", "kind": "@class"},
        "limit": 30,
    },
)
