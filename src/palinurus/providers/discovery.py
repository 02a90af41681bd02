"""A model to begin with: what a server at an address has, and whether a model answers. Writes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import aiohttp
import msgspec

from palinurus.abort import Abort
from palinurus.clock import Clock
from palinurus.config.settings import Settings
from palinurus.core.types.messages import UserMessage
from palinurus.core.types.model import ModelFailure, ModelRequest, Prompt, StreamDone, StreamFailed
from palinurus.providers.catalog import Catalog
from palinurus.providers.stream import ProviderModels

SERVER = "server"  # what a model server that somebody named by its address is called in the config
API = "openai-completions"
LIST_SECONDS = 5.0
TRY_SECONDS = 30.0
LISTED = 50  # models taken over from a server
TOKENS = 64
ADDRESS = "an address looks like http://127.0.0.1:8080/v1"


class CompatibleServer(NamedTuple):
    """A server that speaks the usual protocol, and its models (at least one)."""

    base: str
    models: tuple[str, ...]

    @property
    def entry(self) -> dict[str, Any]:
        """As the config has it, below models.providers."""
        return {"baseUrl": self.base, "api": API, "models": [{"id": one} for one in self.models]}


def is_server_address(text: str) -> bool:
    """Is it the address of a server?"""
    try:
        parts = urlsplit(text.strip())
        return parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return False


async def inspect_server(text: str, key: str = "") -> CompatibleServer | str:
    """What the server at an address has. Why not, if it does not say."""
    base = text.strip().rstrip("/")
    if not is_server_address(base):
        return ADDRESS
    places = [base] if urlsplit(base).path else [f"{base}/v1", base]
    for place in places:
        if models := await _listed(place, key):
            return CompatibleServer(place, models)
    return f"no list of models at {places[0]}/models"


async def _listed(base: str, key: str) -> tuple[str, ...]:
    timeout = aiohttp.ClientTimeout(total=LIST_SECONDS)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        async with aiohttp.ClientSession(timeout=timeout) as http, http.get(f"{base}/models", headers=headers) as said:
            found = msgspec.json.decode(await said.read()) if said.status == 200 else {}
        return tuple(str(row["id"]) for row in found.get("data", ()) if row.get("id"))[:LISTED]
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError, msgspec.DecodeError, AttributeError, TypeError):
        return ()


async def explain_silence(settings: Settings, environ: Mapping[str, str], clock: Clock, ref: str) -> str:
    """The model is asked for one word: why it does not answer, "" if it does."""
    catalog = Catalog(settings, environ)
    info = catalog.find(ref, settings.agents[settings.default_agent])
    if isinstance(info, ModelFailure):
        return info.message
    request = ModelRequest(
        info, Prompt("Answer with one word."), (UserMessage("Are you there?"),), (), max_tokens=TOKENS
    )
    models = ProviderModels(catalog, clock)
    try:
        async with asyncio.timeout(TRY_SECONDS):
            async for event in models.stream(request, Abort()):
                if isinstance(event, StreamFailed):
                    return event.failure.message
                if isinstance(event, StreamDone):
                    return ""
        return "it said nothing"
    except TimeoutError:
        return f"nothing came within {TRY_SECONDS:.0f} s"
    finally:
        await models.close()
