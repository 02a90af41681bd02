"""A program that does whole runs is no model for single calls."""

from __future__ import annotations

from palinurus.abort import Abort
from palinurus.clock import SystemClock
from palinurus.core.types.model import StreamFailed
from palinurus.providers import NATIVE_MODELS, load_row
from palinurus.testing.model import make_model_info, make_request


async def test_a_single_call_fails_with_words_that_help() -> None:
    model = load_row(NATIVE_MODELS, "runtime")("", SystemClock())
    (event,) = [
        event
        async for event in model.stream(make_request("hi", make_model_info("runtime", "codex", "gpt-5.5")), Abort())
    ]
    assert isinstance(event, StreamFailed) and event.failure.kind == "config" and event.message.failed
    assert "codex/gpt-5.5 is a program" in event.failure.message
