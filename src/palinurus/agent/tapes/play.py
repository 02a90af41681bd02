"""Serves a tape to a run: what it reads and asks is answered with what was recorded, in the recorded order.

Lanes take their own steps one after the other; what ends in several lanes (tools side by side) ends in the order of the
tape. It judges nothing: where the run asks for something else, it gets what comes next, and the comparison of the two
tapes tells. From a chosen model call on it may let the world in again (`live`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import msgspec

from palinurus.abort import Abort
from palinurus.agent.tapes.tape import Tape, TapeStep
from palinurus.clock import Clock
from palinurus.core.types.events import ToolUpdate
from palinurus.core.types.messages import TextBlock, ToolCall, ToolResult, UserMessage
from palinurus.core.types.model import Model, ModelEvent, ModelFailure, ModelRequest, Prompt, StopSignal
from palinurus.core.types.outbound import RunVisibility
from palinurus.providers.errors import make_failed

T = TypeVar("T")
# How long a tool waits for its turn; then the run is another one, and order means nothing. In looks, as a busy machine
# takes longer for each: 3 seconds where nothing else runs.
PATIENCE, LOOK = 30, 0.1
WORLD = frozenset({"supply"})  # values that are looked up anew unless the replay is frozen
NOT_TAPED = "this call is not on the tape; nothing was run (--live-tools runs it, in a copy of the workspace)"


class PlayRules(msgspec.Struct, frozen=True):
    """How much comes from the tape."""

    frozen: bool = False  # the workspace's files too
    live_from: int = 0  # the model call from which on the model is asked; 0: never
    live_tools: bool = False  # from there on tools run
    prompt: str = ""  # from there on in the place of the system prompt


class TapePlayer:
    """One tape, played once."""

    def __init__(self, tape: Tape, rules: PlayRules) -> None:
        self.rules = rules
        self.live = False
        self._steps = tape.steps
        self._head = tape.head
        self._served = [False] * len(self._steps)
        self._reached = 0  # all before it are served
        self._waiting: list[tuple[int, Callable[[], None]]] = []
        self._loose = False
        self._abort: Abort | None = None
        self._calls = 0
        self.last: dict[str, Any] = {}  # the newest value of each kind of reading

    def lane(self, number: int) -> PlayLane:
        return PlayLane(self, [at for at, step in enumerate(self._steps) if step.lane == number])

    def begin(self, abort: Abort) -> None:
        self._abort = abort
        if self._head.stopped:
            abort.set(self._head.stopped)
        self._advance()

    def step(self, at: int) -> TapeStep:
        return self._steps[at]

    def is_served(self, at: int) -> bool:
        return self._served[at]

    def serve(self, at: int) -> None:
        self._served[at] = True
        self._advance()

    def stop(self, reason: str) -> None:
        if self._abort is not None and not self.live:
            self._abort.set(reason)

    def _advance(self) -> None:
        """What others did to the run is done again as soon as all before it has happened."""
        while self._reached < len(self._steps):
            step = self._steps[self._reached]
            if not self._served[self._reached] and step.kind != "abort":
                break
            self._served[self._reached] = True
            self._reached += 1
            if step.kind == "abort":
                self.stop(step.name)
        self._wake(lambda at: at <= self._reached)

    def _wake(self, due: Callable[[int], bool]) -> None:
        ready = [wake for at, wake in self._waiting if due(at)]
        self._waiting = [(at, wake) for at, wake in self._waiting if not due(at)]
        for wake in ready:
            wake()

    def has_reached(self, at: int) -> bool:
        return at <= self._reached

    async def reach(self, at: int) -> None:
        """Return when all before this step has happened."""
        if at <= self._reached or self._loose:
            return
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self.wait(at, lambda: None if future.done() else future.set_result(None))
        self._watch(future, PATIENCE)
        await future  # itself: each step between it and us would let others come first

    def wait(self, at: int, wake: Callable[[], None]) -> None:
        """Have it called when all before this step has happened."""
        if at <= self._reached or self._loose:
            wake()
        else:
            self._waiting.append((at, wake))

    def _watch(self, future: asyncio.Future[None], left: int) -> None:
        if future.done():
            return
        if left:
            asyncio.get_running_loop().call_later(LOOK, self._watch, future, left - 1)
            return
        self._loose = True
        self._wake(lambda at: True)

    def count_call(self) -> bool:
        """One more model call of the run. True: it is live."""
        self._calls += 1
        self.live = self.live or (bool(self.rules.live_from) and self._calls >= self.rules.live_from)
        return self.live

    def find_result(self, call: ToolCall) -> ToolResult | None:
        """What the same call gave on the tape, wherever that was."""
        for step in self._steps:
            if step.kind == "call" and step.name == call.name and step.asked == call.arguments:
                ends = (s for s in self._steps if s.kind == "tool" and s.lane == step.lane)
                if (found := next(ends, None)) is not None:
                    return msgspec.structs.replace(msgspec.convert(found.given, ToolResult), toolCallId=call.id)
        return None


class PlayLane:
    """One lane of it."""

    def __init__(self, player: TapePlayer, steps: list[int]) -> None:
        self._player = player
        self._mine = steps
        self._used: dict[str, int] = {}
        self._shown: RunVisibility | None = None

    def _next(self) -> int | None:
        return next((at for at in self._mine if not self._player.is_served(at)), None)

    def _peek(self, kind: str) -> TapeStep | None:
        at = self._next()
        step = None if at is None else self._player.step(at)
        return step if step is not None and step.kind == kind else None

    def _find(self, kind: str, name: str = "") -> int | None:
        """The next of that kind; those before it that nobody asked for are passed over."""
        for at in self._mine:
            step = self._player.step(at)
            if not self._player.is_served(at) and step.kind == kind and name in ("", step.name):
                return at
        return None

    def _serve(self, at: int) -> None:
        for earlier in self._mine:
            if earlier <= at and not self._player.is_served(earlier):
                self._player.serve(earlier)
        self._used = {}

    def read(self, kind: str, make: Callable[[], T]) -> T:
        if self._player.live:
            return make()
        at, last = self._next(), self._player.last
        values = [] if at is None else self._player.step(at).read.get(kind, [])
        used = self._used.get(kind, 0)
        if used < len(values):
            self._used[kind] = used + 1
            last[kind] = values[used]
            return values[used]  # type: ignore[no-any-return]
        return last[kind] if kind != "id" and kind in last else make()

    def _given(self, name: str, form: object) -> tuple[bool, Any]:
        at = None if self._player.live and not name.startswith("hook ") else self._find("value", name)
        if at is None:
            return name.startswith("hook "), {}
        given = self._player.step(at).given
        self._serve(at)
        if name in WORLD and not self._player.rules.frozen:
            return False, None
        return True, msgspec.convert(given, form)

    async def ask(self, name: str, make: Callable[[], Awaitable[T]], form: object) -> T:
        known, value = self._given(name, form)
        return value if known else await make()

    def ask_now(self, name: str, make: Callable[[], T], form: object) -> T:
        known, value = self._given(name, form)
        return value if known else make()

    async def sleep(self, seconds: float, clock: Clock) -> None:
        await clock.sleep(seconds if self._player.live else 0)

    def adapt(self, request: ModelRequest) -> ModelRequest:
        """The request as it is to be: from here on the run may be another one."""
        if request.session and self._player.count_call() and (words := self._player.rules.prompt):
            return msgspec.structs.replace(request, prompt=Prompt(words))
        return request

    async def stream(self, request: ModelRequest, stop: StopSignal, model: Model) -> AsyncIterator[ModelEvent]:
        if self._player.live:
            async for event in model.stream(request, stop):
                yield event
            return
        at = self._find("model", "run" if request.session else "aside")
        if at is None:
            yield make_failed(request, ModelFailure("format", "the tape has no further model call"))
            return
        step = self._player.step(at)
        for number, event in enumerate(msgspec.convert(step.given, list[ModelEvent])):
            if step.cut and number == step.cut_at:
                self._cut(step)
            yield event
        if step.cut and step.cut_at >= len(step.given):
            self._cut(step)
        self._serve(at)

    def _cut(self, step: TapeStep) -> None:
        if step.cut == "cancelled":  # by a time limit: it is over
            raise TimeoutError
        self._player.stop(step.cut)

    async def invoke(
        self, call: ToolCall, make: Callable[[], Awaitable[ToolResult]], show: Callable[[ToolUpdate], None]
    ) -> ToolResult:
        at = None if self._player.live else self._find("call")
        if at is None:
            return await self._answer(call, make)
        self._serve(at)
        while (at := self._next()) is not None and (step := self._player.step(at)).kind == "update":
            await self._player.reach(at)
            self._serve(at)
            show(msgspec.convert(step.given, ToolUpdate))
        if at is None or step.kind != "tool":  # it was stopped: so it is again, when the run is
            await asyncio.Event().wait()
        assert at is not None  # nobody sets that
        await self._player.reach(at)
        self._serve(at)
        return msgspec.convert(step.given, ToolResult)

    async def _answer(self, call: ToolCall, make: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
        rules = self._player.rules
        if self._player.live and rules.live_tools:
            return await make()
        if (found := self._player.find_result(call)) is not None:
            return found
        return ToolResult(call.id, call.name, (TextBlock(NOT_TAPED),), True, timestamp=self.read("now", int))

    async def begin(self) -> None:
        """Tools start in the order of the tape, too."""
        if (at := self._next()) is not None and not self._player.live:
            await self._player.reach(at)

    def pass_mark(self, name: str) -> None:
        if (at := self._find("mark", name)) is not None:
            self._serve(at)

    def close(self) -> None:
        if (at := self._find("done")) is not None:
            self._serve(at)

    def end(self, tell: Callable[[], None]) -> None:
        if (at := self._find("end")) is None or self._player.live:
            tell()
            return

        def say() -> None:
            tell()
            self._serve(at)

        self._player.wait(at, say)

    def take(self) -> list[tuple[UserMessage, str]]:
        at, step = self._next(), self._peek("steer")
        if at is None or step is None or self._player.live:
            return []
        self._serve(at)
        return msgspec.convert(step.given, list[tuple[UserMessage, str]])

    def switch(self) -> RunVisibility | None:
        """Not before all that had happened by then."""
        at, step = self._next(), self._peek("switch")
        if at is not None and step is not None and self._player.has_reached(at) and not self._player.live:
            self._serve(at)
            self._shown = msgspec.convert(step.given, RunVisibility | None)
        return self._shown

    def waits(self) -> bool:
        at, step = self._next(), self._peek("waiting")
        if at is None or step is None or self._player.live:
            return False
        self._serve(at)
        return True
