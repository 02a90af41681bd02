"""Brave Search (api.search.brave.com): an index of its own, with a key."""

from __future__ import annotations

import re
from typing import Any

from palinurus.tools.web.engines.engine import Call, Engine, Found, Place, Query, hit, hits, rows, url

_FRESH = {"day": "pd", "week": "pw", "month": "pm", "year": "py"}
_MARKUP = re.compile(r"</?strong>")


def _request(query: Query, place: Place) -> Call:
    fresh = _FRESH.get(query.freshness, "")
    if query.after or query.before:
        fresh = f"{query.after or '1990-01-01'}to{query.before or '2099-12-31'}"
    address = url(
        f"{place.base}/res/v1/web/search",
        q=query.text,
        count=query.count,
        country=query.country.upper(),
        search_lang=query.language.lower(),
        freshness=fresh,
    )
    return Call(address, {"X-Subscription-Token": place.key, "Accept": "application/json"})


def _read(answer: Any) -> Found:
    found = []
    for row in rows(answer, "web", "results"):
        clean = {k: _MARKUP.sub("", v) if isinstance(v, str) else v for k, v in row.items()}
        found.append(hit(clean, "title", "url", "description", "age"))
    return Found(hits(found))


ENGINE = Engine(
    "brave",
    "https://api.search.brave.com",
    _request,
    _read,
    frozenset({"country", "language", "freshness", "dates"}),
)
