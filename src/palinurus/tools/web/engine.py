"""Search engines as a table: where each is, how a query is put to it, and where its answer has what. Pure.

`build_request` and `read_answer` are the same for all of them; what an engine has of its own is a function in its row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import msgspec

from palinurus.patterns import compile_late

FRESHNESS = ("day", "week", "month", "year")
FIRST_DAY, LAST_DAY = "1990-01-01", "2099-12-31"  # for engines that want both ends of a span


class WebQuery(msgspec.Struct, frozen=True):
    """What the model asked for; "" = not said. Dates are YYYY-MM-DD."""

    text: str
    count: int = 5
    country: str = ""
    language: str = ""
    freshness: str = ""
    after: str = ""
    before: str = ""


class EngineAccess(msgspec.Struct, frozen=True):
    """Where the engine is and who we are to it."""

    base: str
    key: str = ""
    model: str = ""


class EngineRequest(msgspec.Struct, frozen=True):
    """An HTTP request. With a body it is a POST of JSON."""

    url: str
    headers: Mapping[str, str]
    body: bytes | None = None


class WebHit(msgspec.Struct, frozen=True, omit_defaults=True):
    """One result."""

    title: str
    url: str
    description: str = ""
    published: str = ""


class EngineAnswer(msgspec.Struct, frozen=True):
    """Hits; `answer` where the engine writes one itself."""

    hits: tuple[WebHit, ...]
    answer: str = ""


class SearchEngine(msgspec.Struct, frozen=True):
    """`ask`: the query in the engine's words; what is None or "" is left out. `fields`: where a row has title, address,
    description and date; `clean` makes such a row of the engine's. `key`: the header for it, and its form.

    `pick` (rows and fields, see `page.pick_rows`) is for engines that answer with a page, and gives the rows."""

    name: str
    base: str
    path: str
    ask: Callable[[WebQuery], dict[str, Any]]
    knows: frozenset[str]  # of country, language, freshness, dates
    fields: tuple[str, str, str, str] = ("title", "url", "content", "publishedDate")
    rows: tuple[str, ...] = ("results",)
    clean: Callable[[dict[str, Any]], dict[str, Any]] = dict
    key: tuple[str, str] | None = None
    post: bool = False
    pick: dict[str, Any] | None = None
    chat: str = ""  # path of a form that takes a model and writes an answer
    chat_knows: frozenset[str] = frozenset()


def build_request(engine: SearchEngine, query: WebQuery, access: EngineAccess) -> EngineRequest:
    """What is sent to the engine."""
    said = {name: value for name, value in engine.ask(query).items() if value not in (None, "")}
    path, headers = engine.path, {"Accept": "text/html" if engine.pick else "application/json"}
    if engine.key is not None:
        headers[engine.key[0]] = engine.key[1].format(access.key)
    if access.model and engine.chat:
        path, kept = engine.chat, {name: value for name, value in said.items() if name.startswith(_CHAT_TOO)}
        said = {"model": access.model, "messages": [{"role": "user", "content": query.text}], **kept}
    if engine.post:
        headers["Content-Type"] = "application/json"
        return EngineRequest(f"{access.base}{path}", headers, msgspec.json.encode(said))
    return EngineRequest(f"{access.base}{path}?{urlencode(said, quote_via=quote)}", headers)


def read_answer(engine: SearchEngine, answer: Any) -> EngineAnswer:
    """What came back; nothing where it has another shape."""
    hits = _hits(engine, _rows(answer, *engine.rows))
    told = answer.get("answer") if isinstance(answer, dict) else None
    if choices := _rows(answer, "choices"):
        message = choices[0].get("message")
        told = message.get("content") if isinstance(message, dict) else ""
        cited = answer.get("citations")
        plain = [WebHit(one, one) for one in cited if isinstance(one, str)] if isinstance(cited, list) else []
        hits = _hits(engine, _rows(answer, "search_results")) or tuple(plain)
    return EngineAnswer(hits, told if isinstance(told, str) else "")


def list_ignored(engine: SearchEngine, query: WebQuery, model: str = "") -> list[str]:
    """What was said that the engine cannot be asked for."""
    said = {
        "country": query.country,
        "language": query.language,
        "freshness": query.freshness,
        "dates": query.after or query.before,
    }
    knows = engine.chat_knows if model and engine.chat else engine.knows
    return [name for name, value in said.items() if value and name not in knows]


def _rows(value: Any, *path: str) -> list[dict[str, Any]]:
    """The list of tables at `path`; [] when the answer has another shape."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _hits(engine: SearchEngine, rows: Iterable[dict[str, Any]]) -> tuple[WebHit, ...]:
    """Those that have an address of the web, each address once."""
    found = {}
    for row in map(engine.clean, rows):
        title, url, description, published = (_text(row, name) for name in engine.fields)
        if url.lower().startswith(("http://", "https://")):
            found[url] = WebHit(title or url, url, description, published)
    return tuple(found.values())


def _text(row: dict[str, Any], name: str) -> str:
    value = row.get(name)
    return value.strip() if isinstance(value, str) else ""


_ALL = frozenset({"country", "language", "freshness", "dates"})
_BEARER = ("Authorization", "Bearer {}")
_CHAT_TOO = ("search_recency", "search_after", "search_before")
_MARKUP = compile_late(r"</?strong>")


def _fresh(query: WebQuery, letter: str, span: str) -> str:
    """A time for engines that write it as one value: `letter` and the first letter of day, week, …; or both dates."""
    if query.after or query.before:
        return f"{query.after or FIRST_DAY}{span}{query.before or LAST_DAY}"
    return f"{letter}{query.freshness[0]}" if query.freshness else ""


def _american(date: str) -> str:
    """YYYY-MM-DD as MM/DD/YYYY."""
    year, _, rest = date.partition("-")
    return f"{rest.replace('-', '/')}/{year}" if rest else ""


def _without_markup(row: dict[str, Any]) -> dict[str, Any]:
    return {name: _MARKUP.sub("", value) if isinstance(value, str) else value for name, value in row.items()}


def _with_highlights(row: dict[str, Any]) -> dict[str, Any]:
    lit = row.get("highlights")
    told = " … ".join(one for one in lit if isinstance(one, str)) if isinstance(lit, list) else row.get("text")
    return {**row, "told": told}


def _without_counter(row: dict[str, Any]) -> dict[str, Any]:
    """Links lead through a counter; where to stands in its parameter. Advertisements lead nowhere."""
    link = str(row.get("url", ""))
    full = f"https:{link}" if link.startswith("//") else link
    try:
        parts = urlsplit(full)
        inner = parse_qs(parts.query).get("uddg", [])
    except ValueError:
        return {}
    if "result--ad" in row.get("kind", ""):
        return {}
    return {**row, "url": inner[0] if inner and parts.path.startswith("/l/") else full}


_TABLE = (
    SearchEngine(  # an index of its own, with a key
        "brave",
        "https://api.search.brave.com",
        "/res/v1/web/search",
        lambda query: {
            "q": query.text,
            "count": query.count,
            "country": query.country.upper(),
            "search_lang": query.language.lower(),
            "freshness": _fresh(query, "p", "to"),
        },
        _ALL,
        ("title", "url", "description", "age"),
        rows=("web", "results"),
        clean=_without_markup,
        key=("X-Subscription-Token", "{}"),
    ),
    SearchEngine(  # made for agents, with a key
        "tavily",
        "https://api.tavily.com",
        "/search",
        lambda query: {
            "query": query.text,
            "max_results": query.count,
            "time_range": query.freshness,
            "start_date": query.after,
            "end_date": query.before,
        },
        frozenset({"freshness", "dates"}),
        ("title", "url", "content", "published_date"),
        key=_BEARER,
        post=True,
    ),
    SearchEngine(  # its search API; with a model configured, an answer with its sources instead
        "perplexity",
        "https://api.perplexity.ai",
        "/search",
        lambda query: {
            "query": query.text,
            "max_results": query.count,
            "country": query.country.upper(),
            "search_recency_filter": query.freshness,
            "search_after_date_filter": _american(query.after),
            "search_before_date_filter": _american(query.before),
            "search_language_filter": [query.language.lower()] if query.language else None,
        },
        _ALL,
        ("title", "url", "snippet", "date"),
        key=_BEARER,
        post=True,
        chat="/chat/completions",
        chat_knows=frozenset({"freshness", "dates"}),
    ),
    SearchEngine(  # search by meaning, with a key
        "exa",
        "https://api.exa.ai",
        "/search",
        lambda query: {
            "query": query.text,
            "numResults": query.count,
            "userLocation": query.country.upper(),
            "startPublishedDate": query.after,
            "endPublishedDate": query.before,
            "contents": {"highlights": True},
        },
        frozenset({"country", "dates"}),
        ("title", "url", "told", "publishedDate"),
        clean=_with_highlights,
        key=("x-api-key", "{}"),
        post=True,
    ),
    SearchEngine(  # one runs it oneself; its settings must allow the format json
        "searxng",
        "",
        "/search",
        lambda query: {
            "q": query.text,
            "format": "json",
            "language": query.language,
            "time_range": query.freshness,
        },
        frozenset({"language", "freshness"}),
    ),
    SearchEngine(  # its page without scripts: needs no key, has no API; it may ask for a person
        "duckduckgo",
        "https://html.duckduckgo.com",
        "/html/",
        lambda query: {
            "q": query.text,
            "kl": f"{query.country.lower()}-{query.language.lower() or 'en'}" if query.country else "",
            "df": _fresh(query, "", ".."),
        },
        _ALL,
        ("title", "url", "text", ""),
        rows=(),
        clean=_without_counter,
        pick={
            "rows": "div.result",
            "fields": {"title": "a.result__a", "url": "a.result__a@href", "text": ".result__snippet", "kind": "@class"},
            "limit": 30,
        },
    ),
)
ENGINES: dict[str, SearchEngine] = {one.name: one for one in _TABLE}
