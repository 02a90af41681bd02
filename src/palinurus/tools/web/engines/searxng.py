"""SearXNG: a search engine one runs oneself. Its settings must allow the format json."""

from __future__ import annotations

from typing import Any

from palinurus.tools.web.engines.engine import Call, Engine, Found, Place, Query, hit, hits, rows, url


def _request(query: Query, place: Place) -> Call:
    address = url(
        f"{place.base}/search",
        q=query.text,
        format="json",
        language=query.language,
        time_range=query.freshness,
    )
    return Call(address, {"Accept": "application/json"})


def _read(answer: Any) -> Found:
    return Found(hits([hit(row, "title", "url", "content", "publishedDate") for row in rows(answer, "results")]))


ENGINE = Engine("searxng", "", _request, _read, frozenset({"language", "freshness"}))
