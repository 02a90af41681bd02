"""What a search engine is to us, and what is asked of it. Values only; no network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import msgspec

FRESHNESS = ("day", "week", "month", "year")


class WebQuery(msgspec.Struct, frozen=True):
    """What the model asked for; "" = not said. Dates are YYYY-MM-DD."""

    text: str
    count: int = 5
    country: str = ""
    language: str = ""
    freshness: str = ""
    after: str = ""
    before: str = ""


class EngineAccess(NamedTuple):
    """Where the engine is and who we are to it."""

    base: str
    key: str = ""
    model: str = ""


class EngineRequest(NamedTuple):
    """An HTTP request. With a body it is a POST of JSON."""

    url: str
    headers: Mapping[str, str]
    body: bytes | None = None


class WebHit(msgspec.Struct, frozen=True, omit_defaults=True):
    title: str
    url: str
    description: str = ""
    published: str = ""


class EngineAnswer(NamedTuple):
    """Hits; `answer` where the engine writes one itself."""

    hits: tuple[WebHit, ...]
    answer: str = ""


class SearchEngine(NamedTuple):
    """`pick` (rows and fields, see `page.pick`) is for engines that answer with a page: `read` then gets its rows."""

    name: str
    base: str
    request: Callable[[WebQuery, EngineAccess], EngineRequest]
    read: Callable[[Any], EngineAnswer]
    knows: frozenset[str] = frozenset()  # of country, language, freshness, dates
    pick: dict[str, Any] | None = None


def build_url(base: str, **params: str | int | None) -> str:
    """`base` with the parameters that are set."""
    said = {name: value for name, value in params.items() if value not in (None, "")}
    return f"{base}?{urlencode(said, quote_via=quote)}" if said else base


def build_post(address: str, body: dict[str, Any], **headers: str) -> EngineRequest:
    """A POST of JSON; what is None or "" is left out."""
    said = {name: value for name, value in body.items() if value not in (None, "")}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return EngineRequest(
        address, {"Content-Type": "application/json", "Accept": "application/json", **named}, msgspec.json.encode(said)
    )


def find_rows(value: Any, *path: str) -> list[dict[str, Any]]:
    """The list of tables at `path`; [] when the answer has another shape."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def make_hit(row: dict[str, Any], title: str, address: str, description: str, published: str = "") -> WebHit | None:
    """A hit from a row by its field names; None without an address of the web."""
    where = _text(row, address)
    if not where.lower().startswith(("http://", "https://")):
        return None
    return WebHit(
        _text(row, title) or where, where, _text(row, description), _text(row, published) if published else ""
    )


def collect_hits(found: list[WebHit | None]) -> tuple[WebHit, ...]:
    """Those that are there, each address once."""
    return tuple({one.url: one for one in found if one is not None}.values())


def _text(row: dict[str, Any], name: str) -> str:
    value = row.get(name)
    return value.strip() if isinstance(value, str) else ""
