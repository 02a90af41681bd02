"""Who makes pictures, for the image_generate tool: the models of agents.*.imageGenerationModel in their order, or the
one that a call names and no other. A prompt goes to that model's provider and nowhere else.

Each request is allowed by the budgets before it is made and counted after it, like any other model call. At kill -9 a
request under way is lost, and what it cost is not known; the tool's result says that its outcome is unknown.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable

import msgspec

from palinurus.abort import Abort
from palinurus.config.settings import AgentSettings, Secret, Settings
from palinurus.core.types.messages import UserMessage
from palinurus.core.types.model import ImageOrder, ModelFailure, ModelRequest, ModelSpec, Prompt
from palinurus.core.types.tool import ToolFailure
from palinurus.core.types.usage import TokenUsage
from palinurus.providers.budget import Budgets
from palinurus.providers.catalog import Catalog
from palinurus.providers.credentials import build_key_headers
from palinurus.providers.errors import classify_refusal, clip_message
from palinurus.providers.http import HttpClient, HttpTimeouts, TransportError
from palinurus.providers.wire import images as wire
from palinurus.providers.wire.images import ImageHttpCall, MadeImages

GEMINI = "google-generative-ai"
ANSWER = 128 << 20  # bytes
TOKENS = 8_000  # output of one picture, at most, as budgets reckon


class ImageProtocol(msgspec.Struct, frozen=True):
    """How pictures are asked for. `several`: one request makes as many as are wanted."""

    build: Callable[[str, ImageOrder, str], ImageHttpCall]
    read: Callable[[bytes], MadeImages | ModelFailure]
    header: str
    several: bool


_PROTOCOLS = {GEMINI: ImageProtocol(wire.build_gemini_images, wire.read_gemini_images, "x-goog-api-key", False)}
_USUAL = ImageProtocol(wire.build_openai_images, wire.read_openai_images, "authorization", True)


class GeneratedImages(msgspec.Struct, frozen=True):
    """Pictures, who made them, and what that took."""

    images: tuple[bytes, ...]
    provider: str
    model: str
    usage: TokenUsage
    notices: tuple[str, ...] = ()  # of the budgets, for the person
    failed: tuple[str, ...] = ()  # who was asked before, and why they made none


class ImageGenerator:
    """`available` before the tool is offered, `generate` when it is used. `close` when the program ends."""

    def __init__(self, settings: Settings, catalog: Catalog, budgets: Budgets) -> None:
        self._settings = settings
        self._catalog = catalog
        self._budgets = budgets
        self._http = HttpClient()

    async def close(self) -> None:
        """End all connections."""
        await self._http.close()

    def available(self) -> bool:
        """Does some agent have somebody who makes pictures?"""
        return any(self.list_models(name) for name in self._settings.agents)

    def list_models(self, agent: str) -> list[str]:
        """The models that can be asked, in order."""
        owner = self._settings.agents[agent]
        found = (self._find(text, owner) for text in owner.pictures.models)
        return [str(one[0].ref) for one in found if not isinstance(one, ModelFailure)]

    async def generate(self, order: ImageOrder, agent: str, session: str) -> GeneratedImages:
        """The pictures. Raises ToolFailure when nobody could make them."""
        owner = self._settings.agents[agent]
        failed: list[str] = []
        for text in (order.model,) if order.model else owner.pictures.models:
            found = self._find(text, owner)
            if isinstance(found, ModelFailure):
                failed.append(f"{text}: {found.message}")
                continue
            made = await self._order(order, *found, session=session, seconds=order.timeout or owner.pictures.timeout)
            if isinstance(made, GeneratedImages):
                return msgspec.structs.replace(made, failed=tuple(failed))
            failed.append(f"{text}: {made.message}")
        raise ToolFailure("; ".join(failed) or "nobody makes pictures here: the owner sets imageGenerationModel")

    def _find(self, text: str, agent: AgentSettings) -> tuple[ModelSpec, Secret] | ModelFailure:
        spec = self._catalog.find(text, agent)
        if not isinstance(spec, ModelSpec):
            return spec
        if not spec.base_url.startswith(("http://", "https://")):
            return ModelFailure("config", "this provider makes no pictures")
        profile = next(iter(self._catalog.profiles(spec.ref.provider)), None)
        key = profile.secret if profile is not None else self._catalog.key(spec)
        return key if isinstance(key, ModelFailure) else (spec, key)

    async def _order(
        self, order: ImageOrder, spec: ModelSpec, key: Secret, session: str, seconds: float
    ) -> GeneratedImages | ModelFailure:
        how = _PROTOCOLS.get(spec.api, _USUAL)
        rounds = 1 if how.several else order.count
        made, usage, notices = list[bytes](), TokenUsage(), list[str]()
        for _ in range(rounds):
            asked = ModelRequest(
                spec, Prompt(""), (UserMessage(order.prompt),), max_tokens=TOKENS * order.count // rounds,
                session=session, owner=session,
            )  # fmt: skip
            hold = await self._budgets.reserve(asked)
            if isinstance(hold, ModelFailure):
                return hold if not made else self._done(made, spec, usage, notices)
            spent = TokenUsage()
            try:
                came = await self._ask(how, order, spec, key, seconds=seconds)
                if isinstance(came, MadeImages):
                    spent = self._priced(came.usage, spec)
            finally:
                notices += self._budgets.settle(hold, spent)
            if isinstance(came, ModelFailure):
                return came if not made else self._done(made, spec, usage, notices)
            made += came.images
            usage = usage + spent
        return self._done(made, spec, usage, notices)

    def _done(self, made: list[bytes], spec: ModelSpec, usage: TokenUsage, notices: list[str]) -> GeneratedImages:
        return GeneratedImages(tuple(made), spec.ref.provider, spec.ref.model, usage, notices=tuple(notices))

    def _priced(self, usage: TokenUsage, spec: ModelSpec) -> TokenUsage:
        if spec.price is None or usage == TokenUsage():
            return usage
        return msgspec.structs.replace(usage, cost=spec.price.compute_cost(usage))

    async def _ask(
        self, how: ImageProtocol, order: ImageOrder, spec: ModelSpec, key: Secret, seconds: float
    ) -> MadeImages | ModelFailure:
        call = how.build(spec.ref.model, order, secrets.token_hex(8))
        sent = {**spec.headers, **build_key_headers(key, how.header), "content-type": call.kind}
        try:
            async with asyncio.timeout(seconds):
                limits = HttpTimeouts(first=seconds, idle=seconds)
                url = spec.base_url.rstrip("/") + call.path
                answer = await self._http.post(url, call.body, sent, limits, stop=Abort())
                try:
                    told = await answer.body(ANSWER)
                finally:
                    answer.close()
        except TransportError as exc:
            return ModelFailure(exc.kind, exc.message)
        except TimeoutError:
            return ModelFailure("timeout", f"no picture within {seconds:g} s")
        if answer.status == 200:
            return how.read(told)
        failure = classify_refusal(answer.status, told[:100_000])
        return msgspec.structs.replace(failure, message=clip_message(failure.message, (key.reveal(),) if key else ()))
