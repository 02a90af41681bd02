"""A model to begin with: what a person named, made into config, and tried with one tiny request. Writes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from msgspec.structs import replace

from palinurus.cli.status import find_model_in_use
from palinurus.clock import SystemClock
from palinurus.config.settings import ModelSettings, ProviderSettings, Secret, Settings
from palinurus.providers import VENDORS
from palinurus.providers.catalog import Catalog
from palinurus.providers.first import API, SERVER, explain_silence, inspect_server

DEFAULT = "agents.defaults.model"


class SetupCandidate(NamedTuple):
    """A model and what the config must say for it. `ready`: nothing more is needed, no key either."""

    provider: str
    ref: str
    written: dict[str, Any]
    ready: bool = True
    address: str = ""
    models: tuple[str, ...] = ()


def list_keyed_providers(settings: Settings, environ: Mapping[str, str]) -> list[str]:
    """Providers that a key opens, the best known first."""
    catalog = Catalog(settings, environ)
    found = [(name, catalog.vendor(name)) for name in VENDORS]
    return [name for name, vendor in found if vendor is not None and vendor.keys and vendor.models]


def parse_candidate(settings: Settings, environ: Mapping[str, str], text: str) -> SetupCandidate | str:
    """A provider, or provider/model. Why not, if there is none such."""
    catalog = Catalog(settings, environ)
    provider, _, wanted = text.strip().partition("/")
    vendor = catalog.vendor(provider.lower())
    if vendor is None or provider.lower() not in VENDORS:
        return f"no provider {provider!r}; there is: {', '.join(list_keyed_providers(settings, environ))}"
    ident = wanted or next((known.id for known in vendor.models), "")
    if not ident:
        return f"write which model: {vendor.id}/NAME, or the address of the server"
    ready = vendor.keyless or bool(catalog.key_source(vendor.id))
    return SetupCandidate(vendor.id, f"{vendor.id}/{ident}", {DEFAULT: f"{vendor.id}/{ident}"}, ready)


def add_candidate_key(candidate: SetupCandidate, secret: str) -> SetupCandidate:
    """With this key."""
    written = {f"models.providers.{candidate.provider}.apiKey": secret, **candidate.written}
    return candidate._replace(written=written, ready=True)


async def ask_server(address: str) -> SetupCandidate | str:
    """The server at an address: it is asked what it has, the first model is taken. Why not, if it does not say."""
    found = await inspect_server(address)
    if isinstance(found, str):
        return found
    ref = f"{SERVER}/{found.models[0]}"
    written = {f"models.providers.{SERVER}": found.entry, DEFAULT: ref}
    return SetupCandidate(SERVER, ref, written, True, found.base, found.models)


async def try_candidate(settings: Settings, environ: Mapping[str, str], candidate: SetupCandidate) -> str:
    """Ask it for one word. "" if it answers, else why not."""
    return await explain_silence(_with(settings, candidate), environ, SystemClock(), candidate.ref)


async def try_current_model(settings: Settings, environ: Mapping[str, str]) -> tuple[str, str]:
    """The default agent's model is asked for one word: its name, and why it did not answer ("" if it did)."""
    name, _ = await find_model_in_use(settings, environ)
    return name, await try_candidate(settings, environ, SetupCandidate(name.partition("/")[0], name, {}))


def _with(settings: Settings, candidate: SetupCandidate) -> Settings:
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
