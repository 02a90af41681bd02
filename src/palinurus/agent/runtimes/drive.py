"""What runs by other programs share: start, steer, stop, a second start when the program dies, the end.

A `ProgramTalk` knows one program's protocol; here is when it is spoken. One process serves one run: it is started
with the run and gone with it, and finds its conversation again by an id that is kept in the session's record.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from typing import Any, Protocol, TypeAlias

import msgspec

from palinurus.abort import Aborted
from palinurus.agent import hookcalls
from palinurus.agent.plan.runplan import RunPlan
from palinurus.agent.ports import RunPorts
from palinurus.agent.runtimes.bridge import ApprovalBridge
from palinurus.agent.runtimes.mirror import RunMirror
from palinurus.core.types.events import AgentEnd, RunEndReason, RunEvent
from palinurus.core.types.messages import AssistantMessage, UserMessage
from palinurus.core.types.model import FailureKind, ModelFailure, ModelRequest, Prompt

STARTS = 2  # of the program in one run
TICK = 0.2  # seconds between two looks for messages to steer in
PATIENCE = 5.0  # seconds the program has to end a turn that was stopped


class ProgramGone(Exception):
    """The program cannot be spoken to. `kind` is what the run ends with if it stays so; `final`: a second start will
    not help."""

    def __init__(self, message: str, kind: FailureKind = "server", *, final: bool = False) -> None:
        super().__init__(message)
        self.kind: FailureKind = kind
        self.final = final


class ProgramTurnEnd(msgspec.Struct, frozen=True):
    """A turn of the program has ended."""

    end: RunEndReason = "stop"
    failure: ModelFailure | None = None


class ProgramMessage(msgspec.Struct, frozen=True):
    """One message of the program."""

    message: dict[str, Any]


class DriveSignal(msgspec.Struct, frozen=True):
    """Something that happened besides: stop (somebody stops the run), late (it has not ended in time)."""

    what: str


DriveItem: TypeAlias = ProgramMessage | DriveSignal | ProgramGone | RunEvent
PostItem: TypeAlias = Callable[[DriveItem], None]


class ProgramTalk(Protocol):
    """One program process. `open` starts it and says the first words; its messages are posted as `ProgramMessage`, its
    end as `ProgramGone`."""

    over: ProgramTurnEnd | None  # set by `hear` when a turn has ended

    async def open(self, goes_on: bool) -> None:
        """Raises Gone. `goes_on`: it has seen this run's message already."""
        ...

    def hear(self, message: dict[str, Any]) -> list[RunEvent]: ...

    async def steer(self, message: UserMessage) -> bool:
        """A message into the turn that is going. False: too late, it needs a turn of its own."""
        ...

    async def again(self, messages: Sequence[UserMessage]) -> None:
        """Another turn with these. Raises Gone."""
        ...

    async def interrupt(self) -> None: ...

    async def close(self) -> None: ...


class TalkSetting(msgspec.Struct, frozen=True):
    """What a talk works with."""

    plan: RunPlan
    ports: RunPorts
    mirror: RunMirror
    bridge: ApprovalBridge
    post: PostItem


MakeTalk: TypeAlias = Callable[[TalkSetting], ProgramTalk]  # raises Gone


async def drive_program(plan: RunPlan, ports: RunPorts, host: str, make: MakeTalk) -> AsyncGenerator[RunEvent, None]:
    """The events of one run, as `agent/loop.loop` has them. Raises failures of the store only."""
    run = _Drive(plan, ports, host, make)
    for event in run.mirror.begin():
        yield event
    await run.flush()  # what another program is about to see is on disk
    hookcalls.report_request(ports.hooks, plan, run.request)
    forget = ports.abort.on(lambda: run.post(DriveSignal("stop")))
    try:
        for start in range(STARTS):
            async with aclosing(run.once(again=start > 0)) as events:
                async for event in events:
                    yield event
            if run.died is None or run.died.final or ports.abort.reason is not None:
                break
    finally:
        forget()
        ports.steering.close()
    for event in run.ended():
        yield event


class _Drive:
    def __init__(self, plan: RunPlan, ports: RunPorts, host: str, make: MakeTalk) -> None:
        self._plan = plan
        self._ports = ports
        self._host = host
        self._make = make
        self._items: asyncio.Queue[DriveItem] = asyncio.Queue()
        self._late: list[UserMessage] = []  # steered messages that came when the turn was over
        self._over: ProgramTurnEnd | None = None
        self.mirror = RunMirror(plan, ports, f"{host}-runtime")
        self.died: ProgramGone | None = None
        told = tuple(m for m in plan.opening if isinstance(m, UserMessage))
        if plan.opening and not told and plan.inbound.options.results:  # it knows nothing of the caller's tools
            told = (plan.inbound.message(plan.started),)
        self._told = bool(told)
        self.request = ModelRequest(plan.model, Prompt(""), told, level=plan.choices[0].level.level)

    def post(self, item: DriveItem) -> None:
        self._items.put_nowait(item)

    async def once(self, *, again: bool) -> AsyncGenerator[RunEvent, None]:
        """One life of the program."""
        self.died, self._items = None, asyncio.Queue()
        bridge = ApprovalBridge(self._plan, self._ports, self.post, self._host)
        talk: ProgramTalk | None = None
        # The opening message is this run's news; without one the program had it before we were interrupted.
        seen = not self._told or (again and self.mirror.acted)
        try:
            talk = self._make(TalkSetting(self._plan, self._ports, self.mirror, bridge, post=self.post))
            await self._ports.abort.wait(talk.open(seen))
            async for event in self._turns(talk):
                yield event
        except Aborted:
            pass
        except ProgramGone as gone:
            self.died = gone
            self.mirror.cut()
        finally:
            if talk is not None:
                await talk.close()

    async def _turns(self, talk: ProgramTalk) -> AsyncIterator[RunEvent]:
        while True:
            async for event in self._turn(talk):
                yield event
            self._over = talk.over
            if self._ports.abort.reason is not None or talk.over is None or talk.over.failure is not None:
                return
            for message, item in self._ports.steering.take():
                for event in self.mirror.add_steered(message, item):
                    yield event
                self._late.append(message)
            if not self._late:
                self._ports.steering.close()
                return
            await self.flush()
            talk.over, late, self._late = None, self._late, []
            await talk.again(late)

    async def _turn(self, talk: ProgramTalk) -> AsyncIterator[RunEvent]:
        """Until the program's turn is over. Raises Gone."""
        while talk.over is None:
            item = await self._next()
            if isinstance(item, ProgramGone):
                raise item
            if isinstance(item, ProgramMessage):
                for event in talk.hear(item.message):
                    yield event
            elif isinstance(item, DriveSignal):
                if item.what == "late":
                    return
                await talk.interrupt()
                asyncio.get_running_loop().call_later(PATIENCE, self.post, DriveSignal("late"))
            elif item is not None:
                yield item
            if talk.over is None and self._ports.abort.reason is None:
                for message, ident in self._ports.steering.take():
                    for event in self.mirror.add_steered(message, ident):
                        yield event
                    await self.flush()
                    if not await talk.steer(message):
                        self._late.append(message)
            if self.mirror.dirty and talk.over is None:
                await self.flush()

    async def _next(self) -> DriveItem | None:
        try:
            return await asyncio.wait_for(self._items.get(), TICK)
        except TimeoutError:
            return None

    async def flush(self) -> None:
        await self._ports.record.flush()
        self.mirror.dirty = False

    def ended(self) -> list[RunEvent]:
        end, failure = self._verdict()
        made = self.mirror.finish(end, failure)
        said = (
            [m for m in made[-1].messages if isinstance(m, AssistantMessage)] if isinstance(made[-1], AgentEnd) else []
        )
        hookcalls.report_answer(
            self._ports.hooks, self._plan, self.request, said[-1] if said else AssistantMessage(()), failure=failure
        )
        return made

    def _verdict(self) -> tuple[RunEndReason, ModelFailure | None]:
        reason = self._ports.abort.reason
        if reason is not None:
            return ("timeout" if reason == "timeout" else "aborted"), ModelFailure("aborted", reason)
        if self.died is not None:
            return "error", ModelFailure(self.died.kind, f"{self._host}: {self.died}")
        over = self._over or ProgramTurnEnd("error", ModelFailure("server", f"{self._host} ended without an answer"))
        return over.end, over.failure
