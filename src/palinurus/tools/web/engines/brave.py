"""Brave Search (api.search.brave.com): an index of its own, with a key."""

from __future__ import annotations

import re
from typing import Any

from palinurus.tools.web.engines.engine import (
    EngineAccess,
    EngineAnswer,
    EngineRequest,
    SearchEngine,
    WebQuery,
    build_url,
    collect_hits,
    find_rows,
    make_hit,
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
