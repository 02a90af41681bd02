"""A model of ours for a tool server (MCP's sampling): one answer, no tools, nothing of the conversation. Counts against
the budgets of the session whose tool it is.
"""

from __future__ import annotations

import asyncio

from palinurus.abort import Abort
from palinurus.config.settings import Settings
from palinurus.core.types.messages import AssistantMessage, Message, TextBlock, UserMessage
from palinurus.core.types.model import Model, ModelRequest, ModelSpec, Prompt, StreamDone, StreamFailed
from palinurus.core.types.sampling import SamplingAnswer, SamplingRequest
from palinurus.core.types.tool import ToolFailure
from palinurus.providers.catalog import Catalog

MOST = 4096  # tokens of an answer, whatever a server wants
SECONDS = 120.0


class SamplingModel:
    """Implements `core.types.sampling.SamplerPort`."""

    def __init__(self, settings: Settings, catalog: Catalog, model: Model) -> None:
        self._settings, self._catalog, self._model = settings, catalog, model

    def choose(self, request: SamplingRequest, agent: str) -> str:
        """See the port."""
        return str(self._find(request, agent).ref)

    def _find(self, request: SamplingRequest, agent: str) -> ModelSpec:
        """Only models that the owner wrote into the config: a server must not choose what costs more."""
        owner = self._settings.agents[agent]
        listed = [f"{p.id}/{m.id}" for p in self._settings.providers.values() for m in p.models]
        known = [*filter(None, (owner.model, *owner.fallbacks, *owner.aliases.values())), *listed]
        for hint in filter(None, request.hints):
            for name in (one for one in known if hint.lower() in one.lower()):
                found = self._catalog.find(name, owner)
                if isinstance(found, ModelSpec):
                    return found
        return self._catalog.default(owner)

    async def sample(self, request: SamplingRequest, agent: str, session: str) -> SamplingAnswer:
        """See the port."""
        info = self._find(request, agent)
        asked = ModelRequest(
            info,
            Prompt(request.system),
            [self._make_message(role, text, info) for role, text in request.messages],
            max_tokens=min(request.max_tokens, MOST, info.max_tokens),
            temperature=request.temperature,
            stop=request.stop,
            session=session,
            owner=session,
        )
        try:
            async with asyncio.timeout(SECONDS):
                async for event in self._model.stream(asked, Abort()):
                    if isinstance(event, StreamFailed):
                        raise ToolFailure(f"{info.ref}: {event.failure.message}")
                    if isinstance(event, StreamDone):
                        return SamplingAnswer(event.message.text, str(info.ref), event.message.stopReason == "length")
        except TimeoutError:
            raise ToolFailure(f"{info.ref} did not answer within {SECONDS:g} s") from None
        raise ToolFailure(f"{info.ref} did not answer")

    @staticmethod
    def _make_message(role: str, text: str, info: ModelSpec) -> Message:
        if role == "user":
            return UserMessage(text)
        return AssistantMessage((TextBlock(text),), provider=info.ref.provider, model=info.ref.model)
