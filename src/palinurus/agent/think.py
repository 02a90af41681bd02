"""One answer of the model, however many tries that takes. What to do after a failure is a table in `recover`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from palinurus.agent.plan import Choice, RunPlan
from palinurus.agent.ports import Ports
from palinurus.agent.recover import Recovery
from palinurus.core.types.events import Event, MessageEnd, MessageStart, MessageUpdate
from palinurus.core.types.messages import Assistant, Message
from palinurus.core.types.model import Done, Failed, Failure, Request, TextDelta, ThinkingDelta
from palinurus.core.types.usage import Usage
from palinurus.points import point

EMPTY = Failure("malformed", "the model returned an empty answer")


class Thinker:
    """`think` streams the answer; afterwards `reply`, `failure` and `usage` (of all tries) are set."""

    def __init__(self, plan: RunPlan, ports: Ports) -> None:
        self._plan = plan
        self._ports = ports
        self._shown = 0
        self.reply = Assistant(())
        self.failure: Failure | None = None
        self.usage = Usage()

    async def think(self, messages: Sequence[Message]) -> AsyncIterator[Event]:
        """MessageStart, updates, MessageEnd. A failed try of which nothing was shown leaves no trace in the events."""
        recovery = Recovery(self._plan.choices, messages)
        yield MessageStart()
        while True:
            async for event in self._try(recovery.choice, recovery.messages):
                yield event
            if self.failure is None or not recovery.again(self.failure, shown=self._shown > 0):
                break
        point("model.done")
        yield MessageEnd(self.reply)

    async def _try(self, choice: Choice, messages: Sequence[Message]) -> AsyncIterator[Event]:
        plan = self._plan
        # Fast mode "auto" is decided anew for every call, by how long the run has been going.
        elapsed = (self._ports.clock.now() - plan.started) / 1000
        request = Request(
            choice.model,
            plan.prompt,
            messages,
            plan.specs if choice.model.tools else (),
            choice.level.level,
            choice.fast.at(elapsed),
            session=plan.session_id,
            **plan.sampling,
        )
        async for event in self._ports.model.stream(request, self._ports.abort):
            kind = type(event)
            if kind is TextDelta:
                self._count()
                yield MessageUpdate(event.text)  # type: ignore[union-attr]
            elif kind is ThinkingDelta:
                yield MessageUpdate(event.text, "thinking")  # type: ignore[union-attr]
            elif isinstance(event, Done | Failed):
                self._end(event)
        if self.failure is not None:  # calls that worked are in the ledger
            self._ports.record.step("model failed", f"{choice.model.ref}: {self.failure.kind}: {self.failure.message}")

    def _count(self) -> None:
        self._shown += 1
        if self._shown == 1:
            point("model.first")
        elif self._shown == 5:
            point("model.middle")

    def _end(self, event: Done | Failed) -> None:
        self.reply = event.message
        self.usage = self.usage + event.message.usage
        self.failure = event.failure if isinstance(event, Failed) else None
        if self.failure is None and not event.message.calls and not event.message.text.strip():
            self.failure = EMPTY
            self.reply = Assistant((), stopReason="error", errorMessage=EMPTY.message, usage=event.message.usage)
