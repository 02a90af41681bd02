"""The model behind providers that are programs (codex, claude-cli). They do whole runs; a single call to one, for a
summary or as a stand-in for another model, fails with words that help.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from palinurus.clock import Clock
from palinurus.core.types.model import ModelEvent, ModelFailure, ModelRequest
from palinurus.providers.errors import make_failed


def make_program_model(home: str, clock: Clock) -> ProgramModel:
    """For `providers.stream`."""
    return ProgramModel()


class ProgramModel:
    """The `Model` port, always failing."""

    async def stream(self, request: ModelRequest, stop: Any) -> AsyncIterator[ModelEvent]:
        ref = request.model.ref
        text = f"{ref} is a program that does whole runs; for this, a model with an API is needed"
        yield make_failed(request, ModelFailure("config", text))

    async def close(self) -> None:
        """Nothing to end."""
