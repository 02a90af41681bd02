"""Writes down what a run is told, while it goes. Keeps values as they are; they are encoded when the run is over.

With a player below (`play.py`) the same lanes serve a tape and write down what comes of it: a replay is a
recording too, and comparing the two is comparing tapes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import msgspec

from palinurus.abort import Abort
from palinurus.agent.fingerprint import RequestPiece
from palinurus.agent.plan.prepare import PreparedRun
from palinurus.agent.plan.runplan import RunPlan
from palinurus.agent.ports import SteeringPort
from palinurus.agent.tapes.play import PlayLane, TapePlayer
from palinurus.agent.tapes.tape import (
    TapedRequest,
    TapeEnd,
    TapeHead,
    TapeStep,
    TapeTool,
    TextSwap,
    encode_tape,
    print_request,
    shorten_event,
)
from palinurus.clock import Clock
from palinurus.core.types.events import RunEvent, ToolUpdate
from palinurus.core.types.messages import ToolCall, ToolResult, UserMessage
from palinurus.core.types.model import Model, ModelEvent, ModelRequest, StopSignal
from palinurus.core.types.outbound import Reply, RunVisibility
from palinurus.core.types.tool import Tool, ToolSpec
from palinurus.providers.redact import blank_secrets
from palinurus.sessions.entries import UnknownEntry, encode_entry, encode_header
from palinurus.sessions.transcript import Transcript
from palinurus.store.port import Settlement
from palinurus.taping import find_lane, use_lane

T = TypeVar("T")
PieceLook = Callable[[str], Sequence[RequestPiece] | None]  # (session id): what was seen of its last request


class RequestTaken(msgspec.Struct):
    """A request as it was, until there is time to look at it."""

    request: ModelRequest
    pieces: Sequence[RequestPiece] | None


class RecordLane:
    """Implements `agent.ports.RunLane`."""

    def __init__(self, tape: RunTape, number: int, below: PlayLane | None) -> None:
        self.task: object = None
        self.plays = below is not None
        self._tape = tape
        self._number = number
        self._below = below
        self._read: dict[str, list[Any]] = {}
        self._shown: RunVisibility | None = None

    def read(self, kind: str, make: Callable[[], T]) -> T:
        value = make() if self._below is None else self._below.read(kind, make)
        self._read.setdefault(kind, []).append(value)
        return value

    def note(self, kind: str, name: str = "", asked: object = None, given: object = None) -> TapeStep:
        """Write a step down."""
        step = TapeStep(kind, self._number, name, asked, given=given, read=self._read)
        self._read = {}
        self._tape.steps.append(step)
        return step

    async def ask(self, name: str, make: Callable[[], Awaitable[T]], form: object) -> T:
        value = await (make() if self._below is None else self._below.ask(name, make, form))
        self.note("value", name, given=value)
        return value

    def ask_now(self, name: str, make: Callable[[], T], form: object) -> T:
        value = make() if self._below is None else self._below.ask_now(name, make, form)
        self.note("value", name, given=value)
        return value

    async def sleep(self, seconds: float, clock: Clock) -> None:
        await (clock.sleep(seconds) if self._below is None else self._below.sleep(seconds, clock))

    async def stream(self, request: ModelRequest, stop: StopSignal, model: Model) -> AsyncIterator[ModelEvent]:
        """A model's events, as they come."""
        events: list[ModelEvent] = []
        below = self._below
        request = request if below is None else below.adapt(request)
        step = TapeStep("model", self._number, "run" if request.session else "aside", given=events)
        seen = self._tape.look(request.session) if request.session and below is None else None
        step.asked = RequestTaken(request, seen)
        self._tape.streaming = step
        try:
            async for event in below.stream(request, stop, model) if below else model.stream(request, stop):
                events.append(event)
                yield event
        except (asyncio.CancelledError, TimeoutError):
            step.cut, step.cut_at = step.cut or "cancelled", len(events)
            raise
        finally:
            step.read, self._read = self._read, {}
            self._tape.steps.append(step)
            self._tape.streaming = None

    async def begin(self) -> None:
        if self._below is not None:
            await self._below.begin()

    def pass_mark(self, name: str) -> None:
        """A place that the run has reached."""
        if self._below is not None:
            self._below.pass_mark(name)
        self.note("mark", name)

    def fork(self) -> RecordLane:
        """The lane of a tool call that is about to begin."""
        return self._tape.fork()

    async def invoke(
        self, call: ToolCall, make: Callable[[], Awaitable[ToolResult]], show: Callable[[ToolUpdate], None]
    ) -> ToolResult:
        """A tool's result. What the tool itself reads is its own business."""
        self.note("call", call.name, call.arguments)
        try:
            with use_lane(None):
                result = await (make() if self._below is None else self._below.invoke(call, make, show))
        except asyncio.CancelledError:
            self.note("cancelled", call.name)
            raise
        self.note("tool", call.name, given=result)
        return result

    def close(self) -> None:
        """Nothing more comes in this lane."""
        if self._below is not None:
            self._below.close()
        self.note("done")

    def end(self, tell: Callable[[], None]) -> None:
        """Which of two tools was heard of first is part of the run."""

        def say() -> None:
            self.note("end")
            tell()

        if self._below is None:
            say()
        else:
            self._below.end(say)

    def take(self, mailbox: SteeringPort) -> list[tuple[UserMessage, str]]:
        """What was written to the run meanwhile."""
        taken = mailbox.take() if self._below is None else self._below.take()
        if taken:
            self.note("steer", given=taken)
        return taken

    def switch(self, shown: RunVisibility | None) -> RunVisibility | None:
        """How much people want to see from now on."""
        shown = shown if self._below is None else self._below.switch()
        if shown != self._shown:
            self._shown = shown
            self.note("switch", given=shown)
        return shown

    def waits(self, mailbox: SteeringPort) -> bool:
        """Is there something?"""
        waits = mailbox.waiting if self._below is None else self._below.waits()
        if waits:
            self.note("waiting")
        return waits


class TapedMailbox:
    """The run's mailbox by way of its tape. Implements `SteeringPort`."""

    def __init__(self, lane: RecordLane, mailbox: SteeringPort) -> None:
        self._lane = lane
        self._mailbox = mailbox

    @property
    def waiting(self) -> bool:
        return self._lane.waits(self._mailbox)

    def take(self) -> list[tuple[UserMessage, str]]:
        return self._lane.take(self._mailbox)

    def close(self) -> None:
        self._mailbox.close()


class RunTape:
    """The tape of one run in the making."""

    def __init__(self, head: TapeHead, abort: Abort, look: PieceLook, player: TapePlayer | None = None) -> None:
        self.head = head
        self.steps: list[TapeStep] = []
        self.look = look
        self.streaming: TapeStep | None = None
        self.plays = player is not None
        self.broken = ""  # why it cannot be kept
        self._player = player
        self._abort = abort
        self._lanes = 0
        self._over = False
        self._events: list[RunEvent] = []
        self._replies: list[Reply] = []
        self._end: Settlement | None = None
        self._transcript: Transcript | None = None
        self._plan: RunPlan | None = None
        self._begun = 0
        self._planned = 0  # steps before the plan
        self._data: list[bytes] = []
        self._lane = RecordLane(self, 0, player.lane(0) if player else None)

    @contextmanager
    def record(self) -> Iterator[None]:
        """For the whole turn, in its task."""
        head, abort = self.head, self._abort
        head.stopped = abort.reason or ""
        if self._player is not None:
            self._player.begin(abort)
        forget = abort.on(self._note_stop)
        try:
            with use_lane(self._lane):
                yield
        finally:
            forget()
            self._lane.close()

    def _note_stop(self) -> None:
        reason = self._abort.reason or ""
        if self._over:
            return
        if self.streaming is not None:
            self.streaming.cut, self.streaming.cut_at = reason, len(self.streaming.given)
        elif not self.head.stopped:
            self.steps.append(TapeStep("abort", -1, reason))

    def fork(self) -> RecordLane:
        self._lanes += 1
        return RecordLane(self, self._lanes, self._player.lane(self._lanes) if self._player else None)

    def begin_plan(self) -> None:
        """A plan is made, maybe not the first: what those read that came to nothing is not the run's."""
        if not self._planned:
            self._lane.pass_mark("plan")
            self._planned = len(self.steps)
            return
        self._lane.pass_mark("again")  # takes with it what was read since the last step
        self.steps[self._planned :] = [step for step in self.steps[self._planned :] if step.kind == "abort"]

    def note_plan(self, prepared: PreparedRun) -> None:
        """What was prepared, before anything is written."""
        plan, transcript = prepared.plan, prepared.transcript
        self._transcript, self._begun = transcript, len(transcript.entries)
        head = self.head
        head.run, head.transcript, head.size, head.leaf = plan.id, transcript.path, transcript.size, transcript.leaf
        self._plan = plan

    def note_switch(self, shown: RunVisibility | None) -> RunVisibility | None:
        """What people have switched meanwhile; None: nothing."""
        return self._lane.switch(shown) if find_lane() is self._lane else shown

    def note_over(self) -> None:
        """Who stops it from here on comes too late."""
        self._lane.pass_mark("over")
        self._over = True

    def show(self, event: RunEvent) -> None:
        self._events.append(event)

    def note_replies(self, replies: tuple[Reply, ...]) -> None:
        self._replies += replies

    def note_end(self, end: Settlement) -> None:
        """It is on disk."""
        self._end = end
        if (transcript := self._transcript) is not None:
            header = [encode_header(transcript.header)] if not self._begun and transcript.header else []
            added = (entry for entry in transcript.entries[self._begun :] if not isinstance(entry, UnknownEntry))
            self._data = header + [encode_entry(entry)[1] for entry in added]

    @property
    def whole(self) -> bool:
        """Is it to be kept?"""
        return self._end is not None and not self.broken

    def steer(self, mailbox: SteeringPort) -> SteeringPort:
        return TapedMailbox(self._lane, mailbox)

    def encode(self, secrets: tuple[str, ...] = (), swap: TextSwap = bytes) -> bytes:
        """The file. May run in another thread. Raises BadRequest when it is too long."""
        before: TapedRequest | None = None
        for step in self.steps:
            if isinstance(step.asked, RequestTaken):
                told = print_request(step.asked.request, step.asked.pieces, swap)
                step.asked, before, last = told, told, before
                if last is not None and last.pieces == told.pieces:
                    step.asked = msgspec.structs.replace(told, sections=None)
        end = TapeEnd(
            outcome=self._end.outcome if self._end else None,
            note=self._end.note if self._end else "",
            events=[shorten_event(_tag(event), _encode_event(event, secrets, swap)) for event in self._events],
            lines=[line.decode("utf-8", "replace") for line in self._data],
            replies=list(self._replies),
            steps=len(self.steps),
        )
        if (plan := self._plan) is not None:
            self.head.tools = tuple(_describe_tool(spec, plan.tools[spec.name]) for spec in plan.specs)
        return encode_tape(self.head, self.steps, end, secrets, swap=swap)


def _describe_tool(spec: ToolSpec, tool: Tool) -> TapeTool:
    kept = {name: getattr(tool, name) for name in ("effect", "sequential", "origin", "owner")}
    return TapeTool(spec.name, spec.description, spec.parameters, **kept)


def _encode_event(event: RunEvent, secrets: tuple[str, ...], swap: TextSwap) -> str:
    """Without credentials: what is left of it may be a hash."""
    return blank_secrets(swap(msgspec.json.encode(event)).decode(), secrets)


def _tag(event: RunEvent) -> str:
    return str(event.__struct_config__.tag)
