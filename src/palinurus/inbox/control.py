"""What a person types that needs no model: directives for the session, commands, a word that stops the run.

Controls do not wait behind the session's run. Each ends in one settlement that holds the answer and the change of
the session's record, so one that was cut off by a crash is simply done again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Protocol

import msgspec

from palinurus.abort import Abort, Aborted
from palinurus.agent.settle import settle_until_stored, to_outgoing_rows
from palinurus.agent.turn import Audience
from palinurus.config.zones import find_zone
from palinurus.core.levels.parse import ParsedDirectives
from palinurus.core.speech import SpokenText
from palinurus.core.types.events import AgentEnd, MessageUpdate, RunEvent
from palinurus.core.types.inbound import Inbound
from palinurus.core.types.keys import SessionKey
from palinurus.core.types.messages import AssistantMessage, TextBlock
from palinurus.core.types.outbound import Reply
from palinurus.core.types.usage import TokenUsage
from palinurus.errors import PalinurusError
from palinurus.inbox.commands import runs
from palinurus.inbox.commands.command import CommandAnswer, CommandCall, CommandContext, is_admin
from palinurus.inbox.commands.levels import DirectiveContext, apply_directives
from palinurus.inbox.commands.reset import make_session_id
from palinurus.inbox.commands.table import TABLE, describe_unknown
from palinurus.inbox.message import CONTROL_LANE, InboxMessage, is_stop_word
from palinurus.inbox.policy import QueuePolicy
from palinurus.late import load_part
from palinurus.services.facts import change_record, diff_records, find_meant_model, gather_facts, list_models
from palinurus.sessions.lifecycle import MessageMoment, find_current_session, make_end_payload, make_start_payload
from palinurus.store.port import InboxItem, RunClaim, Settlement, TurnOutcome

# Control messages (commands, stop words) on their own lane: they never wait behind the session's run.
#
# Of one session they are done in order, but a slow one (it may wait for a whole run) holds the next one up only for
# a moment. Knows where they queue; what they do is the controller's.

AT_ONCE = 16
PATIENCE = 0.25  # seconds
ROLL = 6.0  # seconds for an old run to end and a new session to begin
ROLLING = ("new", "reset")
STOPPING = ("stop", "abort", *ROLLING)
RULES = QueuePolicy("followup", 0.0, 50, "new")


class ControllerPort(Protocol):
    """See `inbox/control.py`."""

    async def turn(
        self, claim: RunClaim, message: InboxMessage, audience: Audience, abort: Abort | None = None
    ) -> None:
        """Do it and settle the claim."""
        ...


def to_control_item(item: InboxItem, message: InboxMessage, busy: bool) -> InboxItem:
    """The row as a control message: `control:KEY`, or while that is busy a queue of its own, `control/ID:KEY`. In a
    fleet the node that runs KEY does it, but what stops runs is done where it was asked, also if that node is frozen:
    `control/stop/ID:KEY`."""
    found = message.command
    stop = is_stop_word(message.inbound.text) or (found is not None and found.name in STOPPING[:2])
    head = f"{CONTROL_LANE}/stop/{item.id}" if stop else f"{CONTROL_LANE}/{item.id}" if busy else CONTROL_LANE
    return msgspec.structs.replace(item, session=f"{head}:{item.session}", lane=CONTROL_LANE)


class _Going(msgspec.Struct, frozen=True, eq=False):
    """A control that is being done."""

    before: asyncio.Future[None] | None
    done: asyncio.Future[None]
    stop: asyncio.Future[None] | None  # done once it has stopped what it stops
    stops: tuple[asyncio.Future[None], ...]  # the same, with those before it
    rolls: bool  # a new session begins


class ControlLane:
    """What is said after a control is accepted once that has stopped what it stops, and begins when it is done."""

    def __init__(self, controller: ControllerPort) -> None:
        self._controller = controller
        self._last: dict[str, _Going] = {}  # by conversation
        self._turns: dict[str, _Going] = {}  # by claim

    def begin(self, claim: RunClaim, message: InboxMessage) -> None:
        """It is claimed, and will have its turn."""
        name, make = str(message.route.key), asyncio.get_running_loop().create_future
        last, command = self._last.get(name), message.command.name if message.command is not None else ""
        stop = make() if is_stop_word(message.inbound.text) or command in STOPPING else None
        stops = (*(last.stops if last is not None else ()), stop)
        open_ = tuple(one for one in stops if one is not None and not one.done())
        rolls = command in ROLLING or (last is not None and last.rolls)
        going = _Going(last.done if last is not None else None, make(), stop, open_, rolls=rolls)
        self._turns[claim.id] = self._last[name] = going

    async def turn(self, claim: RunClaim, message: InboxMessage, audience: Audience, abort: Abort) -> None:
        """Do it, after the one before it if that is quick."""
        name, own = str(message.route.key), self._turns.pop(claim.id)
        try:
            if own.before is not None:
                await asyncio.wait((own.before,), timeout=PATIENCE)
            await self._controller.turn(claim, message, audience, abort)
        finally:
            for future in (own.done, own.stop):
                if future is not None and not future.done():
                    future.set_result(None)
            if self._last.get(name) is own:
                del self._last[name]

    def note_stopped(self, session: str) -> None:
        """What the first of those that are to stop something there stops is stopped, on disk."""
        last = self._last.get(session)
        if last is not None and (left := [one for one in last.stops if not one.done()]):
            left[0].set_result(None)

    async def wait_stopped(self, session: str, inbound: Inbound) -> None:
        """Before a message is accepted: it is not what an earlier one stops."""
        last = self._last.get(session)
        if last is not None and last.stops and not inbound.event.startswith(runs.FOLLOW):
            await asyncio.wait(last.stops, timeout=ROLL)

    async def wait_done(self, session: str, inbound: Inbound, abort: Abort) -> None:
        """Before a message is run: it is said in the session that an earlier one began, or changed."""
        last = self._last.get(session)
        if last is not None and not inbound.event.startswith(runs.FOLLOW):  # the control itself waits for that
            with contextlib.suppress(Aborted):
                await abort.wait(asyncio.wait((last.done,), timeout=ROLL if last.rolls else PATIENCE))


log = logging.getLogger(__name__)

MAX_ATTEMPTS = 3


class _Asked(msgspec.Struct, frozen=True):
    """One control on its way to its end."""

    claim: RunClaim
    message: InboxMessage
    audience: Audience

    @property
    def inbound(self) -> Inbound:
        return self.message.inbound

    @property
    def key(self) -> SessionKey:
        return self.message.route.key

    def replies(self, text: str, number: int = 0, speak: SpokenText | None = None) -> tuple[Reply, ...]:
        """For the outbox. A number is queued once, whoever queues it first."""
        if not self.inbound.push or not (text or speak):
            return ()
        ident, to = f"{self.claim.id}.{number}", self.inbound.reply_to
        return (Reply(self.inbound.target, text, ident, "final", reply_to=to, speak=speak),)


class CommandController:
    """`replied` is told of replies that are in the outbox now."""

    def __init__(self, program: CommandContext, replied: Callable[[tuple[Reply, ...]], None]) -> None:
        self.program = program
        self._replied = replied

    async def turn(
        self, claim: RunClaim, message: InboxMessage, audience: Audience, abort: Abort | None = None
    ) -> None:
        """Do what was asked and settle the claim; the audience sees the answer. Nothing goes into the transcript."""
        asked, inbound = _Asked(claim, message, audience), message.inbound
        if claim.attempts > MAX_ATTEMPTS or not inbound.text:
            why = "it stopped the gateway too often" if inbound.text else "the stored message cannot be read"
            await self._settle(asked, CommandAnswer(f"The command was not run: {why}."), "dead")
            return
        try:
            answer = await self._answer(claim, message)
        except PalinurusError as exc:
            answer = CommandAnswer(f"⚠️ {exc.message}" + (f"\n{exc.fix}" if exc.fix else ""))
        except Exception:  # task boundary: the person is told, the rest goes on
            log.exception("message %s: the command failed", claim.id)
            answer = CommandAnswer("⚠️ The command failed; the log says why.")
        if answer.follow is None:
            await self._settle(asked, answer)
        else:
            await self._followed(asked, answer, answer.follow, abort or Abort())

    async def _answer(self, claim: RunClaim, message: InboxMessage) -> CommandAnswer:
        program, inbound, key = self.program, message.inbound, message.route.key
        settings = program.settings
        ident = make_session_id(claim.id)
        row = await program.store.session(str(key))
        moment = MessageMoment(claim.at, find_zone(settings.agents[key.agent].user_timezone), inbound.target.channel)
        found = await find_current_session(row, key, settings.session, moment, ident=ident, home=settings.home)
        table = {**TABLE, **program.commands}
        call = CommandCall(program, claim, inbound, key, record=found.record, stored=found.stored, table=table)
        answer = await _do(call, message)
        if answer.record is not None and found.stored and answer.record.sessionId == found.record.sessionId:
            patch = diff_records(found.record, answer.record)  # a run may settle meanwhile: the rest is not ours
            answer = msgspec.structs.replace(
                answer, patch=msgspec.structs.replace(answer.record.row(key), data=msgspec.json.encode(patch))
            )
        if answer.record is not None and found.ended is not None and answer.record.sessionId == ident:
            program.hooks.observe("session_end", make_end_payload(key, found.ended, ident))
            program.hooks.observe("session_start", make_start_payload(key, found))
        return answer

    async def _followed(self, asked: _Asked, answer: CommandAnswer, follow: Inbound, abort: Abort) -> None:
        """The session first, then the answer, then the message that follows, then the end of the command: a crash
        between any two is mended by doing it again, since each has an id that comes from the command's."""
        program, claim = self.program, asked.claim
        if answer.patch is not None:
            await program.store.touch(answer.patch)
        elif answer.record is not None:
            await program.store.save_session(answer.record.row(asked.key))
        if asked.inbound.push:
            replies = program.fitted(asked.inbound, asked.replies(answer.text))
            await program.store.queue_replies(claim, to_outgoing_rows(replies, claim.id, program.clock.now()))
            self._replied(replies)
        relay = _Relay(asked.audience) if answer.relay and not asked.inbound.push else None
        said, row = 0, None
        try:
            accepted = await program.inbox.submit(follow, relay.show if relay else None)
            row = await abort.wait(program.inbox.wait(accepted.id)) if relay else None
        except Aborted as exc:
            if exc.reason == "drain":
                await program.store.yield_back(claim)
                return
        except PalinurusError as exc:  # not accepted: say why
            said, answer = 1, CommandAnswer(f"⚠️ {exc.message}")
        if row is not None and relay is not None:
            await self._end(claim, Settlement(row.outcome or "failed", row.note), asked.audience, relay.end)
        else:
            await self._settle(asked, CommandAnswer(answer.text), number=said)

    async def _settle(
        self, asked: _Asked, answer: CommandAnswer, outcome: TurnOutcome = "answered", number: int = 0
    ) -> None:
        now = self.program.clock.now()
        replies = self.program.fitted(asked.inbound, asked.replies(answer.text, number, answer.speak))
        session = answer.record.row(asked.key) if answer.record is not None and answer.patch is None else None
        asked.audience.show(MessageUpdate(answer.text))
        end = AgentEnd((AssistantMessage((TextBlock(answer.text),), timestamp=now),), "stop", TokenUsage(), ended=now)
        rows = to_outgoing_rows(replies, asked.claim.id, now)
        settled = Settlement(outcome, answer.text, (), rows, session=session, touch=answer.patch, spent=answer.spent)
        if await self._end(asked.claim, settled, asked.audience, end):
            if answer.record is not None:
                self.program.changed(str(asked.key), answer.record)
            self._replied(replies)

    async def _end(self, claim: RunClaim, settled: Settlement, audience: Audience, end: AgentEnd | None) -> bool:
        """Try until it is on disk: a full disk may be emptied. False if the claim is no longer ours."""
        program = self.program
        if not await settle_until_stored(claim, lambda: program.store.settle(claim, settled), program.clock):
            return False
        if end is not None:
            audience.show(end)
        return True


class _Relay:
    """Shows one run's events to another's audience, but keeps the end back until both are on disk."""

    def __init__(self, audience: Audience) -> None:
        self._audience = audience
        self.end: AgentEnd | None = None

    def show(self, event: RunEvent) -> None:
        if isinstance(event, AgentEnd):
            self.end = event
        else:
            self._audience.show(event)


async def _do(call: CommandCall, message: InboxMessage) -> CommandAnswer:
    """A stop word, a command, directives; anything else was one when it was accepted and is none any more."""
    found, parsed = message.command, message.parsed
    if is_stop_word(call.inbound.text):
        _tell(call, "stop", "")
        return await runs.run_stop(msgspec.structs.replace(call, name="stop"))
    if found is not None and found.command is None:
        return CommandAnswer(describe_unknown(found.name, call.program.commands))
    directive = found is not None and found.name == "status" and parsed.only  # also a command
    if found is not None and found.command is not None and found.command.run is not None and not directive:
        if found.command.scope == "owner" and not is_admin(call.inbound):
            return CommandAnswer(f"/{found.name} is for the owner only.")
        _tell(call, found.name, found.args)
        return await found.command.run(msgspec.structs.replace(call, name=found.name, args=found.args))
    return _directives(call, parsed) if parsed.only else CommandAnswer("Nothing to do.")


def _tell(call: CommandCall, name: str, args: str) -> None:
    """Hooks hear of a command before it is done. Told again if a crash makes it run again."""
    who = {"senderId": call.inbound.sender.id, "channel": call.inbound.target.channel}
    where = {"sessionKey": str(call.key), "agentId": call.key.agent}
    call.program.hooks.observe("command", {"name": name, "args": args.strip(), **who, **where})


def _directives(call: CommandCall, parsed: ParsedDirectives) -> CommandAnswer:
    """All directives of a message that holds nothing else."""
    program, agent = call.program, call.agent
    before = after = gather_facts(program, call.key, call.record)
    problem = models = ""
    chosen = parsed.get("model")
    if chosen is not None and chosen.raw and chosen.raw.lower() != "status":
        if chosen.raw.lower() == "list":
            models = list_models(program.catalog, agent, str(before.model.ref))
        else:
            wanted = find_meant_model(program.catalog, agent, chosen.raw)
            if isinstance(wanted, str):
                problem = wanted
            else:
                after = gather_facts(program, call.key, call.record, wanted)
    applied = apply_directives(
        parsed.directives,
        DirectiveContext(before, after, call.inbound, program.settings, problem=problem, models=models),
    )
    record = change_record(call.record, applied.changes, program.clock.now()) if applied.changes else None
    text = applied.text
    if parsed.get("status") is not None and not applied.refused:
        now = call if record is None else msgspec.structs.replace(call, record=record)
        card = load_part("command-info").format_status_card(now)
        text = "\n".join(part for part in (text, card) if part)
    return CommandAnswer(text, record)
