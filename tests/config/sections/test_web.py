"""tools.web: defaults, limits, what is opened, and which engine is asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from configs import read_settings
from palinurus.config.load import load_config
from palinurus.config.sections.web import ENGINES, WebFetchSettings, WebSearchSettings, WebSettings
from palinurus.core.policy.address import OpenHosts
from palinurus.tools.web.search import ENGINES as BUILT

KEY = "canary-key-123456"


def made(tmp_path: Path, section: Any, environ: dict[str, str] | None = None, **more: Any) -> WebSettings:
    (tmp_path / "palinurus.json").write_text(json.dumps({"tools": {"web": section}, **more}))
    return load_config(str(tmp_path), environ or {}).settings.web


def test_defaults() -> None:
    settings = read_settings({})[0].web
    assert settings == WebSettings(WebFetchSettings(), WebSearchSettings())
    fetch = settings.fetch
    assert (fetch.chars, fetch.chars_cap, fetch.size, fetch.redirects, fetch.timeout, fetch.cache) == (
        20_000,
        50_000,
        750_000,
        3,
        30.0,
        900.0,
    )
    assert settings.search.engine == "duckduckgo" and settings.search.results == 5


def test_every_engine_that_can_be_named_is_built() -> None:
    assert set(ENGINES) == set(BUILT)


def test_fetch_keys(tmp_path: Path) -> None:
    section = {
        "maxChars": 90_000, "maxCharsCap": 60_000, "maxResponseBytes": 2_000_000, "timeoutSeconds": 10,
        "maxRedirects": 5, "cacheTtlMinutes": 1, "userAgent": "me/1", "allowPrivate": True,
        "allowedHosts": ["127.0.0.1:8123", "NAS.local"], "ssrfPolicy": {"allowRfc2544BenchmarkRange": True},
    }  # fmt: skip
    fetch = made(tmp_path, {"fetch": section}).fetch
    rules = OpenHosts(frozenset({"127.0.0.1:8123", "nas.local"}), True, True, False)
    assert fetch == WebFetchSettings(True, 60_000, 60_000, 2_000_000, 10.0, 5, 60.0, "me/1", rules)


@pytest.mark.parametrize(
    ("section", "named"),
    [
        ({"fetch": {"allowedHosts": ["a b", 7, "*"]}}, "allowedHosts"),
        ({"fetch": {"allowedHosts": "not a host!"}}, "allowedHosts"),
        ({"fetch": {"maxChars": "many"}}, "maxChars"),
        ({"fetch": {"maxResponseBytes": -1}}, "maxResponseBytes"),
        ({"fetch": {"allowPrivate": "yes"}}, "allowPrivate"),
        ({"search": {"provider": "gogle"}}, "provider"),
        ({"search": {"provider": "brave"}}, "provider"),
        ({"search": {"provider": "searxng"}}, "provider"),
        ({"search": {"maxResults": 50}}, "maxResults"),
    ],
)
def test_what_cannot_be_used_is_said_and_opens_nothing(section: dict[str, Any], named: str) -> None:
    made, findings = read_settings({"tools": {"web": section}})
    settings = made.web
    assert [f.path[-1] for f in findings][:1] == [named] and not any(f.fatal for f in findings)
    assert settings.fetch.rules == OpenHosts() and settings.search.results == 5


@pytest.mark.parametrize(
    ("section", "environ", "engine", "key"),
    [
        ({}, {"BRAVE_API_KEY": KEY}, "brave", KEY),
        ({}, {"TAVILY_API_KEY": KEY}, "tavily", KEY),
        ({}, {"SEARXNG_BASE_URL": "http://localhost:8080/"}, "searxng", ""),
        ({"provider": "duckduckgo"}, {"BRAVE_API_KEY": KEY}, "duckduckgo", ""),
        ({"apiKey": KEY}, {}, "brave", KEY),
        ({"provider": "exa", "apiKey": KEY}, {}, "exa", KEY),
        ({"provider": "tavily", "tavily": {"apiKey": KEY}}, {"TAVILY_API_KEY": "other"}, "tavily", KEY),
        ({"provider": "brave", "brave": {"apiKey": {"source": "env", "id": "MY"}}}, {"MY": KEY}, "brave", KEY),
        ({"perplexity": {"apiKey": KEY, "model": "sonar", "baseUrl": "https://p.example/"}}, {}, "perplexity", KEY),
    ],
)
def test_which_engine(tmp_path: Path, section: Any, environ: dict[str, str], engine: str, key: str) -> None:
    search = made(tmp_path, {"search": section}, environ).search
    assert (search.engine, search.key.reveal()) == (engine, key) and KEY not in repr(search)
    if engine == "searxng":
        assert search.base_url == "http://localhost:8080"
    if engine == "perplexity":
        assert (search.base_url, search.model) == ("https://p.example", "sonar")


def test_a_key_in_the_place_of_the_plugin(tmp_path: Path) -> None:
    plugins = {"entries": {"brave": {"config": {"webSearch": {"apiKey": KEY}}}}}
    assert made(tmp_path, {}, plugins=plugins).search.key.reveal() == KEY


def test_image_models(tmp_path: Path) -> None:
    for spec, found in (("p/a", ("p/a",)), ({"primary": "p/a", "fallbacks": ["p/b"]}, ("p/a", "p/b")), (None, ())):
        (tmp_path / "palinurus.json").write_text(json.dumps({"agents": {"defaults": {"imageModel": spec}}}))
        assert load_config(str(tmp_path), {}).settings.image_models == found
