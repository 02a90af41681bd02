"""Perplexity (api.perplexity.ai): its search API; with a model configured, an answer with its sources instead."""

from __future__ import annotations

from typing import Any

from palinurus.tools.web.engines.engine import Call, Engine, Found, Hit, Place, Query, hit, hits, post, rows


def _date(text: str) -> str:
    """YYYY-MM-DD as they write it: MM/DD/YYYY."""
    year, _, rest = text.partition("-")
    return f"{rest.replace('-', '/')}/{year}" if rest else ""


def _request(query: Query, place: Place) -> Call:
    shared = {
        "search_recency_filter": query.freshness,
        "search_after_date_filter": _date(query.after),
        "search_before_date_filter": _date(query.before),
    }
    if place.model:
        body: dict[str, Any] = {"model": place.model, "messages": [{"role": "user", "content": query.text}], **shared}
        return post(f"{place.base}/chat/completions", body, Authorization=f"Bearer {place.key}")
    language = [query.language.lower()] if query.language else None
    body = {"query": query.text, "max_results": query.count, "country": query.country.upper(), **shared}
    body["search_language_filter"] = language
    return post(f"{place.base}/search", body, Authorization=f"Bearer {place.key}")


def _read(answer: Any) -> Found:
    choices = rows(answer, "choices")
    if not choices:
        return Found(hits([hit(row, "title", "url", "snippet", "date") for row in rows(answer, "results")]))
    message = choices[0].get("message")
    told = message.get("content") if isinstance(message, dict) else ""
    named = [hit(row, "title", "url", "snippet", "date") for row in rows(answer, "search_results")]
    cited = answer.get("citations")
    plain = [Hit(one, one) for one in cited if isinstance(one, str)] if isinstance(cited, list) else []
    return Found(hits([*named]) or tuple(plain), told if isinstance(told, str) else "")


ENGINE = Engine(
    "perplexity",
    "https://api.perplexity.ai",
    _request,
    _read,
    frozenset({"country", "language", "freshness", "dates"}),
)
