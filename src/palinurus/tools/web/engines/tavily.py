"""Tavily (api.tavily.com): search made for agents, with a key."""

from __future__ import annotations

from typing import Any

from palinurus.tools.web.engines.engine import Call, Engine, Found, Place, Query, hit, hits, post, rows


def _request(query: Query, place: Place) -> Call:
    body = {
        "query": query.text,
        "max_results": query.count,
        "time_range": query.freshness,
        "start_date": query.after,
        "end_date": query.before,
    }
    return post(f"{place.base}/search", body, Authorization=f"Bearer {place.key}")


def _read(answer: Any) -> Found:
    told = answer.get("answer") if isinstance(answer, dict) else None
    found = [hit(row, "title", "url", "content", "published_date") for row in rows(answer, "results")]
    return Found(hits(found), told if isinstance(told, str) else "")


ENGINE = Engine("tavily", "https://api.tavily.com", _request, _read, frozenset({"freshness", "dates"}))
