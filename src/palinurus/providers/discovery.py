"""A model to begin with: what a server at an address has, and whether a model answers. Writes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import msgspec

from palinurus.abort import Abort
from palinurus.clock import Clock
from palinurus.config.settings import Settings
from palinurus.core.types.messages import UserMessage
from palinurus.core.types.model import ModelFailure, ModelRequest, Prompt, StreamDone, StreamFailed
from palinurus.providers.catalog import Catalog
from palinurus.providers.probe import read_ollama_window
from palinurus.providers.stream import ProviderModels

SERVER = "server"  # what a model server that somebody named by its address is called in the config
API = "openai-completions"
OLLAMA = "ollama"
LIST_SECONDS = 5.0
TRY_SECONDS = 30.0
LISTED = 50  # models taken over from a server
TOKENS = 64
# vLLM; llama.cpp; LM Studio; OpenRouter and others
WINDOWS = ("max_model_len", "n_ctx", "loaded_context_length", "context_length", "context_window", "max_context_length",
           "n_ctx_train")  # fmt: skip
ADDRESS = "an address looks like http://127.0.0.1:8080/v1"


class CompatibleServer(msgspec.Struct, frozen=True):
    """A server that speaks the usual protocol, and its models (at least one). `windows`: how many tokens each takes, 0
    where the server does not say. `sees`: whether each takes pictures, None where the server does not say."""

    base: str
    models: tuple[str, ...]
    windows: tuple[int, ...] = ()
    sees: tuple[bool | None, ...] = ()
    api: str = API

    @property
    def entry(self) -> dict[str, Any]:
        """As the config has it, below models.providers."""
        told, sees = (dict(zip(self.models, facts, strict=False)) for facts in (self.windows, self.sees))
        rows = [
            {
                "id": one,
                **({"contextWindow": told[one]} if told.get(one) else {}),
                **({"input": ["text", "image"]} if sees.get(one) else {}),
            }
            for one in self.models
        ]
        return {"baseUrl": self.base, "api": self.api, "models": rows}

    def list_assumed(self, model: str) -> list[str]:
        """What the server does not say of a model, in words: what is taken for granted then."""
        at = self.models.index(model) if model in self.models else 0
        said = []
        if not (self.windows[at : at + 1] or (0,))[0]:
            said.append("The server does not say how much the model can read; 200,000 tokens are assumed.")
        if (self.sees[at : at + 1] or (None,))[0] is None:
            said.append("The server does not say whether the model sees pictures; it is assumed that it does not.")
        return said


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
        listed = (await _get(f"{place}/models", key)).get("data")
        rows = [row for row in listed if isinstance(row, dict) and row.get("id")] if isinstance(listed, list) else []
        if rows:
            windows, sees = [read_window(row) for row in rows[:LISTED]], [read_sight(row) for row in rows[:LISTED]]
            if len(rows) == 1 and not (windows[0] and sees[0] is not None):  # llama.cpp tells more at another place
                props = await _get(f"{place.removesuffix('/v1')}/props", key)
                more = props.get("default_generation_settings")
                windows = [windows[0] or (read_window(more) if isinstance(more, dict) else 0)]
                sees = [read_sight(props) if sees[0] is None else sees[0]]
            if not any(windows) and (ollama := await _inspect_ollama(place, [str(row["id"]) for row in rows], key)):
                return ollama
            return CompatibleServer(place, tuple(str(row["id"]) for row in rows[:LISTED]), tuple(windows), tuple(sees))
    return f"no list of models at {places[0]}/models"


async def _inspect_ollama(place: str, names: list[str], key: str) -> CompatibleServer | None:
    """An Ollama, by what it tells of its models. It is asked in its own words: there the window can be chosen."""
    root, names = place.removesuffix("/v1"), names[:LISTED]
    told = await asyncio.gather(*(_get(f"{root}/api/show", key, {"model": name}) for name in names))
    if not any(isinstance(facts.get("model_info"), dict) for facts in told):
        return None
    windows = (read_ollama_window(facts.get("model_info") or {}) for facts in told)
    return CompatibleServer(root, tuple(names), tuple(windows), tuple(map(read_sight, told)), api=OLLAMA)


def read_window(row: Mapping[str, Any]) -> int:
    """How many tokens a model takes, in the words of the servers there are; 0 if the row does not say. What it was
    started with counts before what it was trained with."""
    meta = row.get("meta")
    places = (row, meta) if isinstance(meta, dict) else (row,)
    found = (place.get(name) for name in WINDOWS for place in places)
    return next((one for one in found if isinstance(one, int) and not isinstance(one, bool) and one > 0), 0)


def read_sight(row: Mapping[str, Any]) -> bool | None:
    """Whether a model takes pictures, in the words of the servers there are; None if the row does not say."""
    built = row.get("architecture")
    kinds = (row.get("input_modalities"), built.get("input_modalities") if isinstance(built, dict) else None)
    for listed in (*kinds, row.get("capabilities"), row.get("modalities")):
        if isinstance(listed, dict) and isinstance(listed.get("vision"), bool):  # llama.cpp, Mistral
            return bool(listed["vision"])
        if isinstance(listed, list) and listed:  # OpenRouter, LM Studio, Ollama
            return any(word in ("image", "vision") for word in listed)
    return True if row.get("type") == "vlm" else False if row.get("type") == "llm" else None  # LM Studio


async def _get(address: str, key: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What stands there, if it is a JSON object; with a body: what is answered to that."""
    timeout = aiohttp.ClientTimeout(total=LIST_SECONDS)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        verb = "GET" if body is None else "POST"
        asking = aiohttp.ClientSession(timeout=timeout)
        async with asking as http, http.request(verb, address, headers=headers, json=body) as said:
            found = msgspec.json.decode(await said.read()) if said.status == 200 else {}
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError, msgspec.DecodeError):
        return {}
    return found if isinstance(found, dict) else {}


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
