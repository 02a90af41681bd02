"""A program that does whole runs is no model for single calls."""

from __future__ import annotations

from palinurus.abort import Abort
from palinurus.clock import SystemClock
from palinurus.core.types.model import StreamFailed
from palinurus.providers.catalog import Catalog
from palinurus.providers.stream import ProviderModels
from palinurus.testing.model import make_model_info, make_request
from providers.kit import settings


async def test_a_single_call_fails_with_words_that_help() -> None:
    models = ProviderModels(Catalog(settings(), {}), SystemClock())
    asked = make_request("hi", make_model_info("runtime", "codex", "gpt-5.5"))
    (event,) = [event async for event in models.stream(asked, Abort())]
    await models.close()
    assert isinstance(event, StreamFailed) and event.failure.kind == "config" and event.message.failed
    assert "codex/gpt-5.5 is a program" in event.failure.message
