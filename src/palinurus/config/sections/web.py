"""`tools.web`: what may be fetched, how much, and which search engine.

The section is free-form: what is not of the right kind there is a warning and counts as not written.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

import msgspec

from palinurus.config.declare import Section, option, same_form
from palinurus.config.findings import ConfigPlace, suggest_nearest
from palinurus.config.forms import Free, Lower, SecretText, Text, between, resolve_loose_secret
from palinurus.config.secrets import Secret
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


class VisionMethod(Section, frozen=True):
    """tools.media.image.models[]: a model that looks at pictures. Seconds; 0: as all have it."""

    ABOUT: ClassVar = """
        provider The provider that looks at pictures.
        model Its model.
        timeoutSeconds How long it may take.
    """
    provider: Lower = ""
    model: Text = ""
    timeout: Annotated[float, between(0, 3600)] = option(0.0, at="timeoutSeconds")

    LOOSE: ClassVar = True

    @property
    def name(self) -> str:
        """As models are named elsewhere."""
        return f"{self.provider}/{self.model}" if self.provider else self.model


class VisionSettings(Section, frozen=True):
    """tools.media.image: who looks at pictures for models that do not see."""

    enabled: bool = option(True, "false: there is no tool that looks at pictures.", closed=False)
    timeout: Annotated[float, between(0, 3600)] = option(
        0.0, "How long one model may take, in seconds; 0: as long as any call.", "timeoutSeconds"
    )
    models: tuple[VisionMethod, ...] = option((), "Who is asked, in this order, before agents.defaults.imageModel.")

    LOOSE: ClassVar = True


class PdfSettings(msgspec.Struct, frozen=True):
    """agents.defaults.pdf*: what the pdf tool reads at once, and who answers what is asked about a PDF."""

    pages: int = 20
    size: int = 10 << 20  # bytes
    models: tuple[str, ...] = ()  # (): nobody; the text comes back


class WebFetchSettings(Section, frozen=True):
    """tools.web.fetch"""

    ABOUT: ClassVar = """
        enabled false: no web_fetch.
        maxChars How much of a page is read.
        maxCharsCap The most that the agent may ask for.
        maxResponseBytes How much is fetched at most.
        timeoutSeconds How long it may take.
        maxRedirects How many redirections are followed.
        cacheTtlMinutes How long a page is kept.
        userAgent What it says it is.
        allowPrivate true: also addresses of the private network.
        ssrfPolicy Ranges of addresses that are open besides, as OpenClaw writes them.
        allowedHosts Hosts of the private network that may be fetched.
    """
    enabled: bool = option(True, closed=False)
    chars: Annotated[int, between(100, make=int)] = option(20_000, at="maxChars")  # when the model names no number
    chars_cap: Annotated[int, between(100, make=int)] = option(50_000, at="maxCharsCap")  # whatever it names
    size: Annotated[int, between(1024, 64 << 20, int)] = option(750_000, at="maxResponseBytes")
    timeout: Annotated[float, between(0.1, 600)] = option(30.0, at="timeoutSeconds")
    redirects: Annotated[int, between(0, 20, int)] = option(3, at="maxRedirects")
    cache: Annotated[float, between(0, scale=60)] = option(900.0, at="cacheTtlMinutes")  # seconds
    agent: Text = option("", at="userAgent")  # "" = ours
    rules: OpenHosts = option(OpenHosts(), at=None)  # allowedHosts, allowPrivate, ssrfPolicy
    private: bool = option(False, at="allowPrivate")
    ranges: Free = option({}, at="ssrfPolicy")
    readable: bool = option(True, "false: all of a page, with its menus, not only what is to be read.", "readability")

    LOOSE: ClassVar = True
    KNOWN: ClassVar = {"allowedHosts": list[Any] | str}

    def settle(self, raw: Mapping[str, Any], here: ConfigPlace) -> Self:
        hosts = set[str]()
        given = raw.get("allowedHosts")
        for entry in given if isinstance(given, list) else [given] if given is not None else []:
            made = normalize_allowed_host(entry) if isinstance(entry, str) else None
            if made is None:
                # fail closed: what cannot be read opens nothing
                here.odd("allowedHosts", "holds something that is no host", "write 127.0.0.1:8123 or nas.example.net")
            else:
                hosts.add(made)
        names = ("allowRfc2544BenchmarkRange", "allowIpv6UniqueLocalRange")
        rules = OpenHosts(frozenset(hosts), self.private, *(self.ranges.get(name) is True for name in names))
        return msgspec.structs.replace(
            self, chars=min(self.chars, self.chars_cap), rules=rules, private=False, ranges={}
        )


class EngineSection(Section, frozen=True):
    """tools.web.search.<engine>"""

    ABOUT: ClassVar = """
        apiKey Its key.
        baseUrl Its address, if it is another.
        model Its model, where it has several.
    """
    LOOSE: ClassVar = True
    KNOWN: ClassVar = {"apiKey": SecretText, "baseUrl": str, "model": str}


class WebSearchSettings(Section, frozen=True):
    """tools.web.search"""

    ABOUT: ClassVar = """
        apiKey The key of the search engine.
        enabled false: no web_search.
        provider The search engine.
        maxResults How many results.
        timeoutSeconds How long it may take.
        cacheTtlMinutes How long results are kept.
    """
    enabled: bool = option(True, closed=False)
    engine: Lower = option("duckduckgo", at="provider")
    key: Secret = option(Secret(), at=None)
    base_url: str = option("", at=None)  # "" = the engine's own
    model: str = option("", at=None)
    results: Annotated[int, between(1, 10, int)] = option(5, at="maxResults")
    timeout: Annotated[float, between(0.1, 600)] = option(30.0, at="timeoutSeconds")
    cache: Annotated[float, between(0, scale=60)] = option(900.0, at="cacheTtlMinutes")

    LOOSE: ClassVar = True
    KNOWN: ClassVar = {"apiKey": SecretText, **same_form(EngineSection, " ".join(ENGINES))}

    def choose_engine(self, raw: Mapping[str, Any], plugins: Mapping[str, Any], here: ConfigPlace) -> Self:
        """The engine that is named; else the first that has a key; else the one that needs none."""
        named = self.engine if isinstance(raw.get("provider"), str) else ""
        if named and named not in ENGINES:
            hint = suggest_nearest(named, ENGINES) or f"one of {', '.join(ENGINES)}"
            here.odd("provider", f"there is no search engine {named[:40]!r}; duckduckgo is used", hint)
            named = "duckduckgo"
        found = {name: _engine(name, raw, plugins, here) for name in ENGINES}
        usual = "duckduckgo"
        named = named or next((n for n, (secret, url, _) in found.items() if secret or (n == "searxng" and url)), usual)
        secret, url, model = found[named]
        if not secret and named not in KEYLESS:
            (variable,) = ENGINES[named]
            here.odd("provider", f"{named} needs a key", f"set {variable}, or tools.web.search.{named}.apiKey")
        if named == "searxng" and not url:
            here.odd("provider", "searxng needs an address", "set tools.web.search.searxng.baseUrl")
        return msgspec.structs.replace(self, engine=named, key=secret, base_url=url, model=model)


def _engine(
    name: str, raw: Mapping[str, Any], plugins: Mapping[str, Any], here: ConfigPlace
) -> tuple[Secret, str, str]:
    """Key, address and model of one engine: its own table, then its plugin's, then (Brave) the shared key, then
    the environment."""
    told = {**_table(_table(_table(plugins.get(name)).get("config")).get("webSearch")), **_table(raw.get(name))}
    place = here.below(name, "apiKey")
    given = told.get("apiKey")
    chosen = raw["provider"].strip() if isinstance(raw.get("provider"), str) else ""
    if given is None and chosen.lower() in (name, "") and name == (chosen or "brave"):
        given, place = raw.get("apiKey"), here.below("apiKey")
    address = told.get("baseUrl")
    for variable in ENGINES[name]:
        if name == "searxng":
            address = address or here.environ.get(variable)
        elif given is None:
            given = here.environ.get(variable)
    url = address.strip().rstrip("/") if isinstance(address, str) else ""
    model = told.get("model")
    if isinstance(given, str) and not given.strip():
        given = None
    return resolve_loose_secret(given, place), url, model if isinstance(model, str) else ""


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


class WebSettings(Section, frozen=True):
    """tools.web"""

    fetch: WebFetchSettings = WebFetchSettings()
    search: WebSearchSettings = WebSearchSettings()

    LOOSE: ClassVar = True
