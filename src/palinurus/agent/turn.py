"""One claimed message from plan to settlement. Ends the claim in every case but the death of the process.

What people see comes out through an `Audience` (live events) and the settlement (replies, on disk). The last
event is shown only after the settlement is on disk: who has been told "done" will find it done.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeAlias

import msgspec

from palinurus.abort import Abort
from palinurus.agent import hookcalls
from palinurus.agent.compaction.coordinator import CompactionCoordinator, CompactionRun
from palinurus.agent.intents import IntentReader
from palinurus.agent.plan.levels import drop_overtaken, resolve_show
from palinurus.agent.plan.opening import find_open_calls
from palinurus.agent.plan.prepare import PreparedRun, RunPreparer, RunRefusal
from palinurus.agent.plan.runplan import RunPlan
from palinurus.agent.ports import CacheLook, ResultCarrier, RunPorts, SteeringPort
from palinurus.agent.recorder import RunRecorder
from palinurus.agent.runtimes.choose import Runtimes
from palinurus.agent.settle import (
    build_settlement,
    forget_quiet_heartbeat,
    make_usage_row,
    settle_until_stored,
    to_outgoing_rows,
)
from palinurus.agent.tapes.deck import TapeDeck
from palinurus.clock import Clock
from palinurus.core.types.approval import Approver
from palinurus.core.types.events import AgentEnd, MessageEnd, RunEvent
from palinurus.core.types.inbound import NO_INLINE, Inbound, InlineDirectives, Route
from palinurus.core.types.keys import SessionKey
from palinurus.core.types.messages import AssistantMessage, Message, TextBlock, ToolResult, UserMessage
from palinurus.core.types.model import Model, ModelFailure
from palinurus.core.types.outbound import Reply, ReplyBuilder, RunVisibility
from palinurus.core.types.usage import TokenUsage
from palinurus.crashpoints import pass_crashpoint
from palinurus.errors import StateError
from palinurus.late import load_part
from palinurus.plugins.hooks import Hooks
from palinurus.sessions.record import SessionRecord
from palinurus.store.port import RunClaim, SessionRow, Settlement, Store, TurnOutcome

if TYPE_CHECKING:
    from palinurus.agent.compaction.compactor import Compactor
    from palinurus.agent.tapes.record import RunTape

log = logging.getLogger(__name__)

TRIES = 5  # to begin a session that others begin or change, too
PLAYED = 86_400.0  # seconds that a run may take which is played from a tape
MAX_ATTEMPTS = 3  # starts of the same message that ended with the death of the process


class Audience(Protocol):
    """Who watches this run."""

    def show(self, event: RunEvent) -> None: ...

    def absorbed(self, items: tuple[str, ...]) -> None:
        """These waiting messages are part of the run now."""
        ...


class TapedAudience:
    """Who watches a run that is recorded: the tape sees what they see."""

    def __init__(self, inner: Audience, tape: RunTape) -> None:
        self._inner = inner
        self.tape = tape

    def show(self, event: RunEvent) -> None:
        self.tape.show(event)
        self._inner.show(event)

    def absorbed(self, items: tuple[str, ...]) -> None:
        self._inner.absorbed(items)


def _get_tape(audience: Audience) -> RunTape | None:
    return audience.tape if isinstance(audience, TapedAudience) else None


def _spoil(tape: RunTape | None, why: str) -> None:
    """What comes of the run cannot be played again."""
    if tape is not None:
        tape.broken = why


def _pass_end(tape: RunTape | None) -> None:
    if tape is not None:
        tape.note_over()


# (message, inbox id, session, how much to show): who turns the run's events into replies.
SpeakerFactory: TypeAlias = Callable[[Inbound, str, SessionKey, Callable[[], RunVisibility]], ReplyBuilder]


class ClaimedMessage(msgspec.Struct, frozen=True):
    """A message whose turn has come, with all that was decided about it before."""

    claim: RunClaim
    inbound: Inbound  # without its directives; with those it was collected with counted, and what was dropped told
    route: Route
    inline: InlineDirectives = NO_INLINE  # what its directives ask for
    typed: str = ""  # its text as it was typed


class TurnServices(msgspec.Struct, frozen=True):
    """What turns share."""

    preparer: RunPreparer
    store: Store
    model: Model
    hooks: Hooks
    clock: Clock
    speaker: SpeakerFactory
    replied: Callable[[tuple[Reply, ...]], None]  # replies are in the outbox: wake the deliverer
    switched: dict[str, SessionRecord]  # records that commands changed while a run of that session is going
    approver: Approver  # who puts questions to people
    compactions: CompactionCoordinator  # who makes room in long conversations
    runtimes: Runtimes  # programs that do runs in the loop's place
    look: CacheLook  # what was seen of a session's last request
    tapes: TapeDeck  # which runs are recorded
    carrier: ResultCarrier | None = None  # in a fleet


class TurnRunner:
    def __init__(self, services: TurnServices) -> None:
        self._s = services
        self._intents = IntentReader(services.model)

    async def turn(self, message: ClaimedMessage, abort: Abort, mailbox: SteeringPort, audience: Audience) -> None:
        """Run and settle one message. Returns when its outcome is on disk, or it was handed back (drain)."""
        tape = self._s.tapes.begin(message, abort)
        if tape is None:
            await self._turn(message, abort, mailbox, audience)
            return
        with tape.record():
            await self._turn(message, abort, tape.steer(mailbox), TapedAudience(audience, tape))
        self._s.tapes.keep(tape)

    async def _turn(self, message: ClaimedMessage, abort: Abort, mailbox: SteeringPort, audience: Audience) -> None:
        claim, inbound = message.claim, message.inbound
        if claim.attempts > MAX_ATTEMPTS:
            text = f"this message stopped the gateway {claim.attempts - 1} times and is not tried again"
            _spoil(_get_tape(audience), "it was not run")
            await self.close_calls(message.route, claim.id)
            await self._explain(message, audience, ModelFailure("refused", text), "dead")
            return
        if not (message.typed or inbound.images or inbound.files):  # nothing empty is ever accepted
            failure = ModelFailure("refused", "the stored message cannot be read")
            await self._explain(message, audience, failure, "dead")
            return
        taken = await hookcalls.claim_inbound(self._s.hooks, inbound, message.typed, message.route.key)
        if taken is not None:
            now = self._s.clock.now()
            said = (AssistantMessage((TextBlock(taken),), timestamp=now),) if taken else ()
            end = AgentEnd(said, "stop", TokenUsage(), ended=now)  # nothing goes into the transcript
            await self._end(message, audience, end, Settlement("answered" if taken else "silent", taken))
            return
        prepared = await self._prepare(message, _get_tape(audience))
        pass_crashpoint("prepare.after")
        if not isinstance(prepared, RunRefusal) and prepared.finished is None:  # else its answer is on disk already
            refused = await hookcalls.gate_run(self._s.hooks, prepared.plan)
            prepared = prepared if refused is None else RunRefusal(refused)
        if isinstance(prepared, RunRefusal):
            await self._explain(message, audience, prepared.failure, "failed")
        else:
            if (tape := _get_tape(audience)) is not None:
                tape.note_plan(prepared)
            await self._run(claim, prepared, abort, mailbox, audience=audience)

    async def _prepare(self, message: ClaimedMessage, tape: RunTape | None) -> PreparedRun | RunRefusal:
        """The plan, with its session on disk: a resumed turn must find the same one. If somebody else began or changed
        the session meanwhile, it is made again with theirs."""
        for _ in range(TRIES):
            if tape is not None:
                tape.begin_plan()
            made = await self._s.preparer.prepare(message.claim, message.inbound, message.route, message.inline)
            if isinstance(made, RunRefusal) or made.unsaved is None:
                return made
            if await self._s.store.save_session(_row(made), expect=made.unsaved.before):
                return made
        return RunRefusal(ModelFailure("config", "the session changed while the turn began; send it again"))

    async def close_calls(self, route: Route, item: str, *, idle: bool = False) -> None:
        """A message gets no run any more: the tool calls it left open are answered "outcome unknown". `idle`: unless
        its session has a run again, which answers them."""
        try:
            await self._s.preparer.write_unknown_results(route, item, idle=idle)
        except StateError as exc:  # then the session's next turn writes them
            log.error("message %s: its tool calls stay open for now: %s", item, exc.message)

    async def _run(
        self, claim: RunClaim, prepared: PreparedRun, abort: Abort, mailbox: SteeringPort, audience: Audience
    ) -> None:
        """Run and settle; a transcript whose last lines did not get to the disk is read again."""
        settled = False
        try:
            settled = await self._run_prepared(claim, prepared, abort, mailbox, audience=audience)
        finally:
            if not settled:
                self._s.preparer.forget(prepared.transcript)

    async def _run_prepared(
        self, claim: RunClaim, prepared: PreparedRun, abort: Abort, mailbox: SteeringPort, audience: Audience
    ) -> bool:
        """True when its end is on disk; False if it was handed back, or had ended already."""
        s, plan, tape = self._s, prepared.plan, _get_tape(audience)
        price = partial(make_usage_row, plan)
        record = RunRecorder(s.store, claim, prepared.transcript, s.clock, absorbed=audience.absorbed, price=price)
        where = CompactionRun(plan, prepared.session, prepared.transcript, record, abort=abort, view=prepared.view)
        compactor: Compactor = load_part("compactor")(s.compactions, where)
        speaker = s.speaker(plan.inbound, claim.id, plan.route.key, lambda: self._shown(prepared, tape))
        limit = plan.limits.timeout if tape is None or not tape.plays else PLAYED  # the tape says when it was stopped
        timer = asyncio.get_running_loop().call_later(limit, abort.set, "timeout")
        end: AgentEnd | None = None
        try:
            for message in _before(plan, prepared.finished):
                speaker.feed(MessageEnd(message))
            if prepared.finished is not None:
                end = AgentEnd(plan.earlier or (prepared.finished,), "stop", TokenUsage(), ended=s.clock.now())
                speaker.feed(end)
            else:
                ports = RunPorts(
                    s.model, s.hooks, abort, s.clock, record=record, steering=mailbox, approver=s.approver,
                    compactor=compactor, marks=s.preparer.marks, intents=self._intents, look=s.look,
                    confirm=s.store.confirm, carrier=s.carrier,
                )  # fmt: skip
                async with aclosing(await self._begin(plan, ports, tape)) as events:  # tools end before the run does
                    async for event in events:
                        if now := speaker.feed(event):
                            await self._say(claim, now, tape)
                        if isinstance(event, AgentEnd):
                            end = event
                        else:
                            audience.show(event)
        except StateError as exc:
            _spoil(tape, f"the store failed: {exc.message}")
            end = self._break_off(prepared, record, exc)
            speaker.feed(end)
        finally:
            timer.cancel()
            s.switched.pop(str(plan.route.key), None)
        assert end is not None, "a loop ends with AgentEnd"
        _pass_end(tape)
        if abort.reason == "drain":
            await record.flush()
            await s.store.yield_back(claim)
            return False
        replies = speaker.close()
        if abort.reason not in (None, "timeout") and end.end not in ("aborted", "timeout"):
            end, replies = _stop_end(end, str(abort.reason)), ()  # it was stopped as it ended
        made = build_settlement(plan, end, prepared.session, replies, lines=record.unwritten_lines())
        made = msgspec.structs.replace(made, spent=record.unwritten_costs(), steps=record.unwritten_steps())
        made = compactor.extend_settlement(made)
        made = forget_quiet_heartbeat(made, plan, end, prepared.session, transcript=prepared.transcript)
        if not await self._settle(claim, made, abort, record):
            return False
        self._report(replies, tape, made)
        hookcalls.report_end(s.hooks, plan, end, s.clock.now() - plan.started)
        audience.show(end)
        return True

    def _break_off(self, prepared: PreparedRun, record: RunRecorder, exc: StateError) -> AgentEnd:
        """The end of a run that the store stopped; its calls that have no result get one."""
        log.error("message %s: %s", prepared.plan.item, exc.message)
        for result in find_open_calls(prepared.transcript, prepared.plan.item):
            record.add(result)
        failure = ModelFailure("config", f"the turn was stopped: {exc.message}")
        return AgentEnd((), "error", TokenUsage(), failure, ended=self._s.clock.now())

    async def _begin(self, plan: RunPlan, ports: RunPorts, tape: RunTape | None) -> AsyncGenerator[RunEvent, None]:
        """The events of a run, whoever does it: a plugin that has the reply, another program, or the loop."""
        given = await hookcalls.ask_plugin_reply(self._s.hooks, plan)
        if given is not None:
            return hookcalls.speak_plugin_reply(plan, ports, given)
        other = self._s.runtimes.of(plan)
        if other is not None:
            _spoil(tape, "another program did it")
        events: AsyncGenerator[RunEvent, None] = (other or load_part("loop"))(plan, ports)
        return events

    def _shown(self, prepared: PreparedRun, tape: RunTape | None) -> RunVisibility:
        """How much people see right now: they may switch while the run is going."""
        plan, shown = prepared.plan, None
        if (record := self._s.switched.get(str(plan.route.key))) is not None:
            shown = resolve_show(drop_overtaken(plan.inline, prepared.session, record), record, plan.quiet)
        return (shown if tape is None else tape.note_switch(shown)) or plan.show

    async def _say(self, claim: RunClaim, replies: tuple[Reply, ...], tape: RunTape | None) -> None:
        await self._s.store.queue_replies(claim, to_outgoing_rows(replies, claim.id, self._s.clock.now()))
        self._report(replies, tape)

    def _report(self, replies: tuple[Reply, ...], tape: RunTape | None, end: Settlement | None = None) -> None:
        """They are in the outbox; with `end` the whole run is on disk."""
        if tape is not None:
            tape.note_replies(replies)
            if end is not None:
                tape.note_end(end)
        self._s.replied(replies)

    async def _settle(self, claim: RunClaim, end: Settlement, abort: Abort, record: RunRecorder | None = None) -> bool:
        """See `settle_until_stored`; a turn that drains gives up after one try."""

        async def write() -> None:
            nonlocal end
            if record is not None and record.absorbing:  # a steered message whose line is not on disk yet
                written = record.unwritten_costs()
                await record.flush()
                left = tuple(cost for cost in end.spent if cost not in written)
                end = msgspec.structs.replace(end, lines=record.unwritten_lines(), spent=left, steps=())
            await self._s.store.settle(claim, end)

        return await settle_until_stored(claim, write, self._s.clock, lambda: abort.reason == "drain")

    async def _explain(
        self, message: ClaimedMessage, audience: Audience, failure: ModelFailure, outcome: TurnOutcome
    ) -> None:
        """End a message that gets no run: the person is told why."""
        end = AgentEnd((), "error", TokenUsage(), failure, ended=self._s.clock.now())
        await self._end(message, audience, end, Settlement(outcome, failure.message))

    async def _end(self, message: ClaimedMessage, audience: Audience, end: AgentEnd, made: Settlement) -> None:
        """End a message without a run; what `end` says is its reply."""
        claim = message.claim
        speaker = self._s.speaker(message.inbound, claim.id, message.route.key, RunVisibility)
        speaker.feed(end)
        replies = speaker.close()
        rows = to_outgoing_rows(replies, claim.id, self._s.clock.now())
        if await self._settle(claim, msgspec.structs.replace(made, replies=rows), Abort()):
            tape = _get_tape(audience)
            self._report(replies, tape, made)
            audience.show(end)


def _stop_end(end: AgentEnd, reason: str) -> AgentEnd:
    return msgspec.structs.replace(end, end="aborted", failure=ModelFailure("aborted", reason))


def _before(plan: RunPlan, finished: AssistantMessage | None) -> list[Message]:
    """What tools did and the model said in this very turn before a crash, without the answer that ended it."""
    since = max((at for at, m in enumerate(plan.history) if isinstance(m, UserMessage)), default=-1)
    after = plan.history[since + 1 :] if plan.earlier else ()
    return [*(m for m in after if isinstance(m, ToolResult)), *(m for m in plan.earlier if m != finished)]


def _row(prepared: PreparedRun) -> SessionRow:
    plan, session = prepared.plan, prepared.session
    return SessionRow(str(plan.route.key), plan.route.agent, session.sessionId, plan.started, data=session.encode())
