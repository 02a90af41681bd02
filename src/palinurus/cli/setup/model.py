"""A model to begin with: what a person named, made into config, and tried with one tiny request. Writes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from msgspec.structs import replace

from palinurus.cli.status import model_in_use
from palinurus.clock import SystemClock
from palinurus.config.settings import ModelSettings, ProviderSettings, Secret, Settings
from palinurus.providers import VENDORS
from palinurus.providers.catalog import Catalog
from palinurus.providers.first import API, SERVER, explain_silence, inspect_server

DEFAULT = "agents.defaults.model"


class Candidate(NamedTuple):
    """A model and what the config must say for it. `ready`: nothing more is needed, no key either."""

    provider: str
    ref: str
    written: dict[str, Any]
    ready: bool = True
    address: str = ""
    models: tuple[str, ...] = ()


def offered(settings: Settings, environ: Mapping[str, str]) -> list[str]:
    """Providers that a key opens, the best known first."""
    catalog = Catalog(settings, environ)
    found = [(name, catalog.vendor(name)) for name in VENDORS]
    return [name for name, vendor in found if vendor is not None and vendor.keys and vendor.models]


def named(settings: Settings, environ: Mapping[str, str], text: str) -> Candidate | str:
    """A provider, or provider/model. Why not, if there is none such."""
    catalog = Catalog(settings, environ)
    provider, _, wanted = text.strip().partition("/")
    vendor = catalog.vendor(provider.lower())
    if vendor is None or provider.lower() not in VENDORS:
        return f"no provider {provider!r}; there is: {', '.join(offered(settings, environ))}"
    ident = wanted or next((known.id for known in vendor.models), "")
    if not ident:
        return f"write which model: {vendor.id}/NAME, or the address of the server"
    ready = vendor.keyless or bool(catalog.key_source(vendor.id))
    return Candidate(vendor.id, f"{vendor.id}/{ident}", {DEFAULT: f"{vendor.id}/{ident}"}, ready)


def keyed(candidate: Candidate, secret: str) -> Candidate:
    """With this key."""
    written = {f"models.providers.{candidate.provider}.apiKey": secret, **candidate.written}
    return candidate._replace(written=written, ready=True)


async def server(address: str) -> Candidate | str:
    """The server at an address: it is asked what it has, the first model is taken. Why not, if it does not say."""
    found = await inspect_server(address)
    if isinstance(found, str):
        return found
    ref = f"{SERVER}/{found.models[0]}"
    written = {f"models.providers.{SERVER}": found.entry, DEFAULT: ref}
    return Candidate(SERVER, ref, written, True, found.base, found.models)


async def tried(settings: Settings, environ: Mapping[str, str], candidate: Candidate) -> str:
    """Ask it for one word. "" if it answers, else why not."""
    return await explain_silence(_with(settings, candidate), environ, SystemClock(), candidate.ref)


async def current(settings: Settings, environ: Mapping[str, str]) -> tuple[str, str]:
    """The default agent's model is asked for one word: its name, and why it did not answer ("" if it did)."""
    name, _ = await model_in_use(settings, environ)
    return name, await tried(settings, environ, Candidate(name.partition("/")[0], name, {}))


def _with(settings: Settings, candidate: Candidate) -> Settings:
    """As if the config said it already."""
    if not candidate.written:
        return settings
    now = settings.providers.get(candidate.provider) or ProviderSettings(candidate.provider)
    secret = candidate.written.get(f"models.providers.{candidate.provider}.apiKey")
    if secret:
        now = replace(now, api_key=Secret(secret))
    if candidate.address:
        listed = tuple(ModelSettings(one) for one in candidate.models)
        now = ProviderSettings(candidate.provider, candidate.address, API, models=listed)
    return replace(settings, providers={**settings.providers, candidate.provider: now})
