"""SearXNG: a search engine one runs oneself. Its settings must allow the format json."""

from __future__ import annotations

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


def _request(query: WebQuery, place: EngineAccess) -> EngineRequest:
    address = build_url(
        f"{place.base}/search",
        q=query.text,
        format="json",
        language=query.language,
        time_range=query.freshness,
    )
    return EngineRequest(address, {"Accept": "application/json"})


def _read(answer: Any) -> EngineAnswer:
    return EngineAnswer(
        collect_hits(
            [make_hit(row, "title", "url", "content", "publishedDate") for row in find_rows(answer, "results")]
        )
    )


SEARXNG = SearchEngine("searxng", "", _request, _read, frozenset({"language", "freshness"}))
