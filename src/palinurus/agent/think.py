"""One answer of the model, however many tries that takes. What to do after a failure is a table in `recover`."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence

import msgspec

from palinurus.abort import Aborted
from palinurus.agent import hookcalls
from palinurus.agent.card import CallTimes, CardMaker
from palinurus.agent.plan.runplan import ModelCandidate, RunPlan
from palinurus.agent.ports import RunPorts
from palinurus.agent.recover import EMPTY, Recovery, describe_work, format_fallback
from palinurus.agent.toolcalls import CALLS_KEPT, drop_surplus_calls
from palinurus.core.types.events import MessageEnd, MessageStart, MessageUpdate, RunEvent
from palinurus.core.types.messages import AssistantMessage, Message, TextBlock
from palinurus.core.types.model import (
    ModelFailure,
    ModelRequest,
    StreamDone,
    StreamFailed,
    StreamNotice,
    StreamProgress,
    StreamRetry,
    TextDelta,
    ThinkingDelta,
)
from palinurus.core.types.usage import TokenUsage
from palinurus.crashpoints import pass_crashpoint

LONGEST = 400  # characters of a failure


class Thinker:
    """`think` streams an answer; afterwards `reply`, `failure` and `usage` (of all tries) are set.

    One per run: a run stays with the model that answered it. `notices` is what people should be told besides the
    answer; `messages` is the conversation where it had to be compacted for the answer. Each try leaves its card and its
    line of the ledger with the recorder, also one that gave nothing.
    """

    def __init__(self, plan: RunPlan, ports: RunPorts) -> None:
        self._plan = plan
        self._ports = ports
        self._shown = 0
        self._at = 0  # the choice that answered last
        self._told = plan.fallback
        self._cards = CardMaker(plan)
        self._taint: tuple[str, ...] = ()
        self.reply = AssistantMessage(())
        self.failure: ModelFailure | None = None
        self.usage = TokenUsage()
        self.notices: list[str] = []
        self.messages: Sequence[Message] | None = None

    @property
    def choice(self) -> ModelCandidate:
        """The model that answered last, as it was chosen."""
        return self._plan.choices[self._at]

    @property
    def active(self) -> str:
        """The model that answered last."""
        return str(self.choice.model.ref)

    async def think(self, messages: Sequence[Message], taint: tuple[str, ...] = ()) -> AsyncIterator[RunEvent]:
        """MessageStart, updates, MessageEnd. Of a failed try that showed nothing the events have a status."""
        self._taint = taint
        compactor = self._ports.compactor
        compacts, limits = compactor is not None, self._plan.limits
        recovery = Recovery(self._plan.choices, messages, self._at, compacts=compacts, limits=limits)
        self._shown, self.usage, self.messages = 0, TokenUsage(), None
        failures: list[tuple[str, ModelFailure]] = []
        yield MessageStart()
        while True:
            async for event in self._try(recovery):
                yield event
            if self.failure is None:
                break
            failures.append((str(recovery.choice.model.ref), self.failure))
            shown = self._shown > 0
            step = recovery.again(self.failure, shown=shown)
            if step == "compact" and compactor is not None:
                async for event in compactor.compact(recovery.messages, "overflow", recovery.compactions - 1):
                    yield event
                if compactor.messages is None:
                    step = None
                else:
                    recovery.messages = self.messages = compactor.messages
            if step is None:
                if told := self._tell_work(recovery):
                    yield MessageUpdate(told)
                self._given_up(failures)
                break
            self._ports.record.step(
                "model again", f"{step}: {recovery.choice.model.ref} ({recovery.choice.level.level})"
            )
            yield MessageUpdate(f"{failures[-1][0]} failed; asking {recovery.choice.model.ref}", "status")
            if step == "rotate" and self.failure.kind == "overloaded" and limits.auth.overloaded_wait:
                with contextlib.suppress(Aborted):  # the next try notices it too
                    await self._ports.abort.wait(self._ports.clock.sleep(limits.auth.overloaded_wait))
        self._answered(recovery, failures)
        pass_crashpoint("model.done")
        yield MessageEnd(self.reply)

    async def _try(self, recovery: Recovery) -> AsyncIterator[RunEvent]:
        choice, ports = recovery.choice, self._ports
        if (reason := ports.abort.reason) is not None:  # its end is decided: nobody is asked (and paid) for it
            nothing = AssistantMessage((), stopReason="aborted", errorMessage=reason)
            self._end(StreamFailed(ModelFailure("aborted", reason), nothing))
            return
        request = self._request(recovery)
        hookcalls.report_request(ports.hooks, self._plan, request)
        at, began, first = ports.clock.now(), ports.clock.monotonic(), None
        async for event in ports.model.stream(request, ports.abort):
            kind = type(event)
            if first is None and kind is not StreamProgress:
                first = round((ports.clock.monotonic() - began) * 1000)
            if kind is TextDelta:
                self._count(event.text)  # type: ignore[union-attr]
                yield MessageUpdate(event.text)  # type: ignore[union-attr]
            elif kind is ThinkingDelta:
                yield MessageUpdate(event.text, "thinking")  # type: ignore[union-attr]
            elif isinstance(event, StreamNotice):
                self.notices.append(event.text)
            elif isinstance(event, StreamRetry):
                yield MessageUpdate(self._waits(event, str(choice.model.ref)), "status")
            elif isinstance(event, StreamProgress):
                yield MessageUpdate(describe_progress(event, choice.model.ref.model), "status")
            elif isinstance(event, StreamDone | StreamFailed):
                self._end(event)
        hookcalls.report_answer(ports.hooks, self._plan, request, self.reply, failure=self.failure)
        times = CallTimes(at, round((ports.clock.monotonic() - began) * 1000), first)
        look = ports.look(request.session) if ports.look is not None else None
        ports.record.call(
            self.reply,
            self._cards.make(request, choice, self.reply, self.failure, times=times, taint=self._taint, look=look),
        )
        if self.failure is not None:  # calls that worked are in the ledger
            ports.record.step("model failed", f"{choice.model.ref}: {self.failure.kind}: {self.failure.message}")

    def _waits(self, again: StreamRetry, model: str) -> str:
        """What people read while a call is to be made again."""
        why = again.failure.message.removeprefix(model.partition("/")[0] + ": ")
        text = f"{model}: {why}; trying again in {max(1, round(again.wait))} s (try {again.attempt + 1})"
        self._ports.record.step("model again", text)
        return text

    def _request(self, recovery: Recovery) -> ModelRequest:
        plan, choice = self._plan, recovery.choice
        # Fast mode "auto" is decided anew for every call, by how long the run has been going.
        elapsed = (self._ports.clock.now() - plan.started) / 1000
        return ModelRequest(
            choice.model,
            plan.prompt,
            recovery.messages,
            plan.restrict_to(choice).specs if choice.model.tools else (),
            level=choice.level.level,
            fast=choice.fast.at(elapsed),
            session=plan.session_id,
            owner=str(plan.route.key),
            profile=plan.profile,
            fallback=not recovery.last,
            fast_until=_until(choice, plan.started),
            **(plan.sampling | {"tool_choice": "none"} if recovery.only_words else plan.sampling),
        )

    def _count(self, text: str) -> None:
        if not self._shown and text.isspace():  # nobody has seen anything yet
            return
        self._shown += 1
        if self._shown == 1:
            pass_crashpoint("model.first")
        elif self._shown == 5:
            pass_crashpoint("model.middle")

    def _end(self, event: StreamDone | StreamFailed) -> None:
        self.reply, surplus = drop_surplus_calls(event.message, CALLS_KEPT)
        if surplus:  # each would be a line, a result and a part of every later request
            self._ports.record.step("calls dropped", f"{surplus} beyond the first {CALLS_KEPT} of one answer")
        self.usage = self.usage + event.message.usage
        self.failure = event.failure if isinstance(event, StreamFailed) else None
        if self.failure is None and not event.message.calls and not event.message.text.strip():
            self.failure = EMPTY
            nothing = {"content": (), "stopReason": "error", "errorMessage": EMPTY.message}
            self.reply = msgspec.structs.replace(event.message, **nothing)

    def _answered(self, recovery: Recovery, failures: list[tuple[str, ModelFailure]]) -> None:
        self.notices += recovery.notices
        if self.failure is not None:
            return
        self._at = recovery.at
        if self._at and self.active != self._told:
            selected = str(self._plan.model.ref)
            why = next((f.kind for ref, f in failures if ref == selected), "failed before")
            self.notices.append(format_fallback(selected, self.active, why))
        self._told = self.active if self._at else ""

    def _tell_work(self, recovery: Recovery) -> str:
        """The answer in the place of one that never came: what the tools did. "" if they did nothing."""
        told = describe_work(recovery.messages) if self.failure == EMPTY else ""
        if told:
            self.failure = None
            words = {"content": (TextBlock(told),), "stopReason": "stop", "errorMessage": None}
            self.reply = msgspec.structs.replace(self.reply, **words)
        return told

    def _given_up(self, failures: list[tuple[str, ModelFailure]]) -> None:
        """When several models failed, the person is told of each."""
        last = dict(failures)
        if self.failure is None or len(last) < 2:
            return
        text = f"all {len(last)} models failed: " + "; ".join(f"{ref}: {f.message}" for ref, f in last.items())
        text = text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
        self.failure = msgspec.structs.replace(self.failure, message=text)
        self.reply = msgspec.structs.replace(self.reply, errorMessage=text)


def describe_progress(event: StreamProgress, model: str) -> str:
    """What people read while a model on this machine has nothing to say yet."""
    if event.stage == "waiting":
        return f"waiting: {model} is answering another question"
    if event.stage == "loading":
        return f"loading {model} ({event.total / 1e9:.1f} GB) … {event.seconds} s"
    return f"reading {event.total:,} tokens … {event.done * 100 // max(1, event.total)} % ({event.seconds} s)"


def _until(choice: ModelCandidate, started: int) -> int | None:
    return started + round(choice.fast.cutoff * 1000) if choice.fast.mode == "auto" else None
