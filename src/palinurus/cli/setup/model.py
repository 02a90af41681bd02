"""A model to begin with: what a person named, made into config, and tried with one tiny request. Writes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import aiohttp
import msgspec
from msgspec.structs import replace

from palinurus.abort import Abort
from palinurus.cli.status import model_in_use
from palinurus.clock import SystemClock
from palinurus.config.settings import ModelSettings, ProviderSettings, Secret, Settings
from palinurus.core.types.messages import User
from palinurus.core.types.model import Done, Failed, Failure, Prompt, Request
from palinurus.providers import VENDORS
from palinurus.providers.catalog import Catalog
from palinurus.providers.stream import Models

DEFAULT = "agents.defaults.model"
SERVER = "server"  # what a model server that somebody named by its address is called in the config
API = "openai-completions"
LIST_SECONDS = 5.0
TRY_SECONDS = 30.0
TOKENS = 64


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
    base = address.strip().rstrip("/")
    if urlsplit(base).scheme not in ("http", "https") or not urlsplit(base).hostname:
        return "an address looks like http://127.0.0.1:8080/v1"
    tries = [base] if urlsplit(base).path else [f"{base}/v1", base]
    for place in tries:
        models = await _listed(place)
        if models:
            ref = f"{SERVER}/{models[0]}"
            entry = {"baseUrl": place, "api": API, "models": [{"id": one} for one in models]}
            return Candidate(SERVER, ref, {f"models.providers.{SERVER}": entry, DEFAULT: ref}, True, place, models)
    return f"no list of models at {tries[0]}/models"


async def _listed(base: str) -> tuple[str, ...]:
    timeout = aiohttp.ClientTimeout(total=LIST_SECONDS)
    try:
        async with aiohttp.ClientSession(timeout=timeout) as session, session.get(f"{base}/models") as answer:
            found = msgspec.json.decode(await answer.read()) if answer.status == 200 else {}
        return tuple(str(row["id"]) for row in found.get("data", ()) if row.get("id"))[:50]
    except (aiohttp.ClientError, OSError, TimeoutError, msgspec.DecodeError, AttributeError, TypeError):
        return ()


async def tried(settings: Settings, environ: Mapping[str, str], candidate: Candidate) -> str:
    """Ask it for one word. "" if it answers, else why not."""
    catalog = Catalog(_with(settings, candidate), environ)
    agent = settings.agents[settings.default_agent]
    info = catalog.find(candidate.ref, agent)
    if isinstance(info, Failure):
        return info.message
    request = Request(info, Prompt("Answer with one word."), (User("Are you there?"),), (), max_tokens=TOKENS)
    models = Models(catalog, SystemClock())
    try:
        async with asyncio.timeout(TRY_SECONDS):
            async for event in models.stream(request, Abort()):
                if isinstance(event, Failed):
                    return event.failure.message
                if isinstance(event, Done):
                    return ""
        return "it said nothing"
    except TimeoutError:
        return f"nothing came within {TRY_SECONDS:.0f} s"
    finally:
        await models.close()


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
