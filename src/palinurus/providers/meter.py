"""A `Model` with a meter: every call is priced, and allowed by the budget before it is made; in a fleet only by a node
that still is one.

Stands at the port, so that no caller (a turn, a compaction, a sub-agent) gets past it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec

from palinurus.abort import Aborted
from palinurus.core.types.model import (
    Model,
    ModelEvent,
    ModelFailure,
    ModelRequest,
    StopSignal,
    StreamDone,
    StreamFailed,
    StreamNotice,
)
from palinurus.core.types.usage import TokenUsage
from palinurus.errors import StateBroken
from palinurus.providers.budget import BudgetReservation, Budgets
from palinurus.providers.errors import make_failed
from palinurus.providers.prices import add_cost


class MeteredModel:
    """Implements `core.types.model.Model` around another one."""

    def __init__(
        self, model: Model, budgets: Budgets | None = None, confirm: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        self._model = model
        self._budgets = budgets
        self._confirm = confirm  # `Store.confirm`

    async def stream(self, request: ModelRequest, stop: StopSignal) -> AsyncIterator[ModelEvent]:
        """The model's events; usage has its cost. Warnings come as `StreamNotice` before the last event."""
        hold = await self._reserved(request, stop)
        if isinstance(hold, ModelFailure):
            yield make_failed(request, hold)
            return
        running = True
        try:
            async for event in self._model.stream(request, stop):
                if isinstance(event, StreamDone | StreamFailed):
                    event = msgspec.structs.replace(event, message=add_cost(event.message, request.model))
                    running = False
                    for text in self._settled(hold, event.message.usage):
                        yield StreamNotice(text)
                yield event
        finally:
            if running:
                self._settled(hold, TokenUsage())

    async def close(self) -> None:
        """Close the model inside, if it can be closed."""
        close: Any = getattr(self._model, "close", None)
        if close is not None:
            await close()

    async def _reserved(self, request: ModelRequest, stop: StopSignal) -> BudgetReservation | ModelFailure | None:
        try:
            if self._confirm is not None:
                await stop.wait(self._confirm())
            if self._budgets is None or not self._budgets.active:
                return None
            return await stop.wait(self._budgets.reserve(request))
        except Aborted as error:
            return ModelFailure("aborted", error.reason)
        except StateBroken as error:  # others run this now
            return ModelFailure("config", error.message)

    def _settled(self, hold: BudgetReservation | None, usage: TokenUsage) -> list[str]:
        return self._budgets.settle(hold, usage) if self._budgets is not None else []
