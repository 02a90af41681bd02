"""Tavily (api.tavily.com): search made for agents, with a key."""

from __future__ import annotations

from typing import Any

from palinurus.tools.web.engines.engine import (
    EngineAccess,
    EngineAnswer,
    EngineRequest,
    SearchEngine,
    WebQuery,
    build_post,
    collect_hits,
    find_rows,
    make_hit,
)


def _request(query: WebQuery, place: EngineAccess) -> EngineRequest:
    body = {
        "query": query.text,
        "max_results": query.count,
        "time_range": query.freshness,
        "start_date": query.after,
        "end_date": query.before,
    }
    return build_post(f"{place.base}/search", body, Authorization=f"Bearer {place.key}")


def _read(answer: Any) -> EngineAnswer:
    told = answer.get("answer") if isinstance(answer, dict) else None
    found = [make_hit(row, "title", "url", "content", "published_date") for row in find_rows(answer, "results")]
    return EngineAnswer(collect_hits(found), told if isinstance(told, str) else "")


TAVILY = SearchEngine("tavily", "https://api.tavily.com", _request, _read, frozenset({"freshness", "dates"}))
