"""Perplexity (api.perplexity.ai): its search API; with a model configured, an answer with its sources instead."""

from __future__ import annotations

from typing import Any

from palinurus.tools.web.engines.engine import (
    EngineAccess,
    EngineAnswer,
    EngineRequest,
    SearchEngine,
    WebHit,
    WebQuery,
    build_post,
    collect_hits,
    find_rows,
    make_hit,
)


def _date(text: str) -> str:
    """YYYY-MM-DD as they write it: MM/DD/YYYY."""
    year, _, rest = text.partition("-")
    return f"{rest.replace('-', '/')}/{year}" if rest else ""


def _request(query: WebQuery, place: EngineAccess) -> EngineRequest:
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


def _read(answer: Any) -> EngineAnswer:
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
    _request,
    _read,
    frozenset({"country", "language", "freshness", "dates"}),
)
