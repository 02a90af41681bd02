"""Exa (api.exa.ai): search by meaning, with a key."""

from __future__ import annotations

from typing import Any

from palinurus.tools.web.engines.engine import Call, Engine, Found, Place, Query, hit, hits, post, rows


def _request(query: Query, place: Place) -> Call:
    body = {
        "query": query.text,
        "numResults": query.count,
        "userLocation": query.country.upper(),
        "startPublishedDate": query.after,
        "endPublishedDate": query.before,
        "contents": {"highlights": True},
    }
    return post(f"{place.base}/search", body, x_api_key=place.key)


def _read(answer: Any) -> Found:
    found = []
    for row in rows(answer, "results"):
        lit = row.get("highlights")
        told = " … ".join(one for one in lit if isinstance(one, str)) if isinstance(lit, list) else row.get("text")
        found.append(hit({**row, "told": told}, "title", "url", "told", "publishedDate"))
    return Found(hits(found))


ENGINE = Engine("exa", "https://api.exa.ai", _request, _read, frozenset({"country", "dates"}))
