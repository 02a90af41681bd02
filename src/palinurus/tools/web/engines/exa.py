"""Exa (api.exa.ai): search by meaning, with a key."""

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
        "numResults": query.count,
        "userLocation": query.country.upper(),
        "startPublishedDate": query.after,
        "endPublishedDate": query.before,
        "contents": {"highlights": True},
    }
    return build_post(f"{place.base}/search", body, x_api_key=place.key)


def _read(answer: Any) -> EngineAnswer:
    found = []
    for row in find_rows(answer, "results"):
        lit = row.get("highlights")
        told = " … ".join(one for one in lit if isinstance(one, str)) if isinstance(lit, list) else row.get("text")
        found.append(make_hit({**row, "told": told}, "title", "url", "told", "publishedDate"))
    return EngineAnswer(collect_hits(found))


EXA = SearchEngine("exa", "https://api.exa.ai", _request, _read, frozenset({"country", "dates"}))
