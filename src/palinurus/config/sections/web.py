"""`tools.web` with every default applied: what may be fetched, how much, and which search engine. Pure.

The section is free-form: what is not of the right kind there is a warning and counts as not written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from palinurus.config.expand import resolve_loose_secret
from palinurus.config.findings import ConfigFinding, suggest_nearest
from palinurus.config.keypath import Path
from palinurus.config.schema import Config
from palinurus.config.schema.words import ModelChoiceSection
from palinurus.config.settings import Secret, WebFetchSettings, WebSearchSettings, WebSettings
from palinurus.core.policy.address import OpenHosts, normalize_allowed_host

# Engine -> variables that hold its key (searxng: its address). In the order in which one is picked when none is named.
ENGINES: dict[str, tuple[str, ...]] = {
    "brave": ("BRAVE_API_KEY",),
    "tavily": ("TAVILY_API_KEY",),
    "perplexity": ("PERPLEXITY_API_KEY",),
    "exa": ("EXA_API_KEY",),
    "searxng": ("SEARXNG_BASE_URL",),
    "duckduckgo": (),
}
KEYLESS = ("searxng", "duckduckgo")

_FETCH: Path = ("tools", "web", "fetch")
_SEARCH: Path = ("tools", "web", "search")


def resolve_web(config: Config, environ: Mapping[str, str], findings: list[ConfigFinding]) -> WebSettings:
    """The settings; what cannot be used is added to `findings`."""
    section = (config.tools.web if config.tools else None) or {}
    told = {**{k: v for k, v in (config.env or {}).items() if isinstance(v, str)}, **environ}
    plugins = _table(config.plugins and config.plugins.entries)
    reading = _Reading(_table(section.get("fetch")), _FETCH, findings)
    return WebSettings(_fetch(reading), _search(_table(section.get("search")), plugins, told, findings))


def resolve_image_models(config: Config) -> tuple[str, ...]:
    """agents.defaults.imageModel and its fallbacks, as written."""
    spec = config.agents.defaults.image_model if config.agents and config.agents.defaults else None
    chosen = ModelChoiceSection(spec) if isinstance(spec, str) else spec or ModelChoiceSection()
    return tuple(text.strip() for text in (chosen.primary or "", *(chosen.fallbacks or ())) if text.strip())


class _Reading:
    """Takes values of the right kind out of a free-form table."""

    def __init__(self, table: dict[str, Any], path: Path, findings: list[ConfigFinding]) -> None:
        self.table = table
        self._path = path
        self._findings = findings

    def number(self, name: str, otherwise: float, least: float = 0, most: float = 1e9) -> float:
        value = self.table.get(name)
        if value is None:
            return otherwise
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            self.bad(name, f"must be a number from {least:g} to {most:g}; {otherwise:g} is used")
            return otherwise
        return float(value)

    def flag(self, name: str, otherwise: bool) -> bool:
        value = self.table.get(name)
        if value is None or isinstance(value, bool):
            return otherwise if value is None else value
        self.bad(name, f"must be true or false; {str(otherwise).lower()} is used")
        return otherwise

    def text(self, name: str) -> str:
        value = self.table.get(name)
        return value.strip() if isinstance(value, str) else ""

    def bad(self, name: str | int, message: str, hint: str = "") -> None:
        self._findings.append(ConfigFinding((*self._path, name), message, hint, False))


def _fetch(reading: _Reading) -> WebFetchSettings:
    base = WebFetchSettings()
    cap = int(reading.number("maxCharsCap", base.chars_cap, 100))
    policy = _table(reading.table.get("ssrfPolicy"))
    hosts = set[str]()
    given = reading.table.get("allowedHosts")
    for entry in given if isinstance(given, list) else [given] if given is not None else []:
        made = normalize_allowed_host(entry) if isinstance(entry, str) else None
        if made is None:
            # fail closed: what cannot be read opens nothing
            reading.bad("allowedHosts", "holds something that is no host", "write 127.0.0.1:8123 or nas.example.net")
        else:
            hosts.add(made)
    return WebFetchSettings(
        enabled=reading.flag("enabled", base.enabled),
        chars=min(int(reading.number("maxChars", base.chars, 100)), cap),
        chars_cap=cap,
        size=int(reading.number("maxResponseBytes", base.size, 1024, 64 << 20)),
        timeout=reading.number("timeoutSeconds", base.timeout, 0.1, 600),
        redirects=int(reading.number("maxRedirects", base.redirects, 0, 20)),
        cache=reading.number("cacheTtlMinutes", base.cache / 60, 0) * 60,
        agent=reading.text("userAgent"),
        rules=OpenHosts(
            frozenset(hosts),
            reading.flag("allowPrivate", False),
            policy.get("allowRfc2544BenchmarkRange") is True,
            policy.get("allowIpv6UniqueLocalRange") is True,
        ),
    )


def _search(
    table: dict[str, Any], plugins: dict[str, Any], environ: Mapping[str, str], findings: list[ConfigFinding]
) -> WebSearchSettings:
    """The engine that is named; else the first that has a key; else the one that needs none."""
    reading, base = _Reading(table, _SEARCH, findings), WebSearchSettings()
    named = reading.text("provider").lower()
    if named and named not in ENGINES:
        hint = suggest_nearest(named, ENGINES) or f"one of {', '.join(ENGINES)}"
        reading.bad("provider", f"there is no search engine {named[:40]!r}; duckduckgo is used", hint)
        named = "duckduckgo"
    found = {name: _engine(name, reading, plugins, environ, findings) for name in ENGINES}
    named = named or next((n for n, (key, url, _) in found.items() if key or (n == "searxng" and url)), base.engine)
    key, url, model = found[named]
    if not key and named not in KEYLESS:
        (variable,) = ENGINES[named]
        reading.bad("provider", f"{named} needs a key", f"set {variable}, or tools.web.search.{named}.apiKey")
    if named == "searxng" and not url:
        reading.bad("provider", "searxng needs an address", "set tools.web.search.searxng.baseUrl")
    return WebSearchSettings(
        enabled=reading.flag("enabled", base.enabled),
        engine=named,
        key=key,
        base_url=url,
        model=model,
        results=int(reading.number("maxResults", base.results, 1, 10)),
        timeout=reading.number("timeoutSeconds", base.timeout, 0.1, 600),
        cache=reading.number("cacheTtlMinutes", base.cache / 60, 0) * 60,
    )


def _engine(
    name: str, reading: _Reading, plugins: dict[str, Any], environ: Mapping[str, str], findings: list[ConfigFinding]
) -> tuple[Secret, str, str]:
    """Key, address and model of one engine: its own table, then its plugin's, then (Brave) the shared key, then
    the environment."""
    own = _table(reading.table.get(name))
    plugin = _table(_table(_table(plugins.get(name)).get("config")).get("webSearch"))
    told = {**plugin, **own}
    path: Path = (*_SEARCH, name, "apiKey")
    key = told.get("apiKey")
    if key is None and reading.text("provider").lower() in (name, "") and name == (reading.text("provider") or "brave"):
        key, path = reading.table.get("apiKey"), (*_SEARCH, "apiKey")
    address = told.get("baseUrl")
    for variable in ENGINES[name]:
        if name == "searxng":
            address = address or environ.get(variable)
        elif key is None:
            key = environ.get(variable)
    url = address.strip().rstrip("/") if isinstance(address, str) else ""
    model = told.get("model")
    if isinstance(key, str) and not key.strip():
        key = None
    return resolve_loose_secret(key, path, environ, findings), url, model if isinstance(model, str) else ""


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
