"""Room for a conversation that has outgrown its model: when it is due, what becomes of a run that needs it, and what
a person gets who asks for it. Loaded with the first run; what all of them share is `coordinator.py`.

A summary on disk is the usual way. Where that fails the run goes on with what it had, and if that does not fit with a
mechanical cut that only this run sees. Nothing here deletes a line.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType

import msgspec

from palinurus.abort import Abort
from palinurus.agent.card import write_room_cards
from palinurus.agent.compaction import drafts
from palinurus.agent.compaction.coordinator import CompactionCoordinator, CompactionRun, count_characters
from palinurus.agent.compaction.shorten import (
    WRITER,
    CompactionResult,
    CompactionSubject,
    Shortener,
)
from palinurus.agent.plan.window import resolve_window
from palinurus.core.history.tokens import CHARS_PER_TOKEN, count_used_tokens, estimate_context_tokens, estimate_tokens
from palinurus.core.types.events import CompactionEnd, CompactionStart, RunEvent
from palinurus.core.types.keys import SessionKey
from palinurus.core.types.messages import AssistantMessage, Message
from palinurus.core.types.model import ModelFailure, ModelSpec, Prompt
from palinurus.core.types.tool import ToolSpec
from palinurus.errors import StateError
from palinurus.sessions.entries import CompactionEntry
from palinurus.sessions.record import SessionRecord
from palinurus.sessions.transcript import Transcript
from palinurus.store.port import RunClaim, Settlement, StaleClaim, Store, UsageRow

ANSWER = 4_096  # tokens of the window an answer needs at least
GROWTH = 1.1  # a session that could not be made smaller is looked at again when it has grown so much
BELIEVED = 0.5  # of our own estimate: a provider that counted less is not believed
STUCK = "compactionStuckAt"  # in the session's record: the size that could not be made smaller

COMPLETE = "🧹 Auto-compaction complete ({before} → {after} tokens)"
FAILED = (
    "⚠️ The conversation is getting long and could not be summarised ({why}). Nothing is lost; it is tried again later."
)
CUT = (
    "⚠️ The conversation does not fit the model any more and could not be summarised ({why}). Older messages were left "
    "out of this answer; they are still on file."
)
HELPLESS = (
    "⚠️ The conversation nearly fills the model's window ({used} of {window} tokens) and cannot be made smaller: its "
    "last message, the prompt and the tools take most of it. /new begins a fresh one, /model chooses a larger model."
)


class Compactor:
    """Of one run. After `compact`, `messages` is what the model is to see from now on; None: nothing has changed."""

    def __init__(self, shared: CompactionCoordinator, scene: CompactionRun) -> None:
        self._shared = shared
        self._scene = scene
        self._settings = shared.services.settings
        plan, transcript = scene.plan, scene.transcript
        agent = shared.services.agents[plan.route.agent]
        self._session = str(plan.route.key)
        self._overhead = shared.count_overhead(plan)
        self._room = drafts.measure_room(resolve_window(agent, plan.model), self._overhead, self._settings)
        models = tuple(choice.model for choice in plan.choices)
        own = agent.workspace in (plan.workspace, plan.settings.persona)
        writes = WRITER in plan.tools and plan.route.lane == "main" and own
        writes = writes and not plan.inbound.shared  # the notes are the owner's
        subject = CompactionSubject(
            plan.route.key,
            agent,
            scene.session,
            transcript,
            models=models,
            room=self._room,
            abort=scene.abort,
            writes=writes,
            scale=plan.scale,
            run=plan.id,
        )
        self._shortener = Shortener(shared.services, subject)
        newer = len(transcript.messages()) - transcript.older_count
        self._kept = max(0, len(plan.history) - newer) if transcript.older_count else 0
        stuck = scene.session.extra.get(STUCK)
        self._stuck = stuck if isinstance(stuck, int) else 0
        self._sized = (0, 0)  # so many messages of the conversation, which only grows, have so many tokens
        self.messages: tuple[Message, ...] | None = None
        self.notices: list[str] = []

    def used(self, messages: Sequence[Message]) -> int:
        """Tokens of the next request: what the provider counted last, and an estimate of the rest."""
        count, size = self._sized
        if count > len(messages):
            count, size = 0, 0
        size += estimate_tokens(messages[count:])
        self._sized = (len(messages), size)
        return count_request_tokens(messages, self._kept, self._overhead, self._scene.plan.scale, size=size)

    def due(self, messages: Sequence[Message], *, first: bool) -> str:
        """Why room is to be made before the next request; "" if not. `first`: it is the first of the turn."""
        if self._shared.pending_request(self._session) is not None:
            return "manual"
        if not first and not self._settings.mid_turn:
            return ""
        used = self.used(messages)
        if used <= self._stuck * GROWTH:
            return ""
        if used > self._room.limit:
            fits = used + ANSWER <= self._room.window
            return "" if fits and self._shared.resting(self._session) else "threshold"
        flush, size = self._settings.flush, self._scene.transcript.size
        soon = used > self._room.limit - min(flush.soft, self._room.limit // 4)
        if (soon or (flush.force_bytes and size >= flush.force_bytes)) and self._shortener.flushable:
            return "flush"
        limit = self._settings.max_bytes
        long = limit and size >= limit and self._sized[1] * CHARS_PER_TOKEN >= limit
        return "bytes" if long and not self._shared.resting(self._session) else ""

    async def compact(self, messages: Sequence[Message], reason: str, level: int = 0) -> AsyncIterator[RunEvent]:
        """Make room. `level` counts the tries after an overflow: each keeps less."""
        self.messages = None
        if reason == "flush":
            await self._shortener.flush(tuple(messages))
            return
        yield CompactionStart(reason)
        async with self._shared.lock(self._session):
            made = await self._made(messages, reason, level)
        yield CompactionEnd(made, will_retry=reason == "overflow" and self.messages is not None)

    async def _made(self, messages: Sequence[Message], reason: str, level: int) -> bool:
        """True if a summary is on disk; a mechanical cut is none."""
        used = self.used(messages)
        asked = self._shared.pending_request(self._session) or ""
        self._shared.clear_request(self._session)
        size = drafts.weigh_messages(messages, self._scene.plan.scale) if reason == "overflow" else 0
        keeping = drafts.choose_kept_tokens(self._room, self._settings, level, size)
        if reason == "manual" and not self._settings.keep_asked:
            keeping = 0
        failure: ModelFailure | None = None
        if not self._shared.resting(self._session) or reason == "manual":
            draft = await self._shortener.draft(keeping)
            if draft is not None:
                done = await self._shortener.shorten(draft, reason, used, self._write, asked=asked)
                if isinstance(done, CompactionResult):
                    return self._replaced(used, reason)
                failure = done
                if done.kind != "aborted":
                    self._shared.rest(self._session)
        if self._scene.abort.reason is None:
            await self._without(messages, used, reason, keeping, failure=failure)
        return False

    async def _write(self, entry: CompactionEntry) -> None:
        self._scene.record.put(entry)
        await self._scene.record.flush()

    def _replaced(self, before: int, reason: str) -> bool:
        self._now(self._scene.view())
        assert self.messages is not None
        after = self.used(self.messages)
        self._shared.end_rest(self._session)
        if self._settings.notify or self._scene.plan.show.verbose != "off":
            self.notices.append(COMPLETE.format(before=before, after=after))
        if after > self._room.limit:
            self._helpless(after)
        elif self._stuck or STUCK in self._scene.session.extra:
            self._stuck = 0
            self._shortener.fields[STUCK] = None
        return True

    def _now(self, messages: tuple[Message, ...]) -> None:
        """This is what the model sees from here on; what providers counted before was another conversation."""
        self.messages, self._kept, self._sized = messages, len(messages), (0, 0)

    async def _without(
        self, messages: Sequence[Message], used: int, reason: str, keeping: int, failure: ModelFailure | None
    ) -> None:
        """No summary: the run goes on with what it had, or with a cut of it where that cannot fit."""
        why = failure.message if failure else "its summariser failed a moment ago"
        if reason != "overflow" and used + ANSWER <= self._room.window:
            if failure is not None:
                self.notices.append(FAILED.format(why=why))
            elif reason != "manual" and not self._shared.resting(self._session):  # there was nothing to summarise
                self._helpless(used, told=reason == "bytes")
            return
        path = self._scene.transcript.path_to_leaf()
        cut = partial(drafts.cut_mechanically, plan=self._shortener.plan)
        made = await asyncio.to_thread(cut, messages, path, keeping, self._room)
        if made is None:
            self._helpless(used)
            return
        self._now(made)
        if failure is not None or self._shared.resting(self._session):
            self._once(CUT.format(why=why))

    def _helpless(self, used: int, *, told: bool = False) -> None:
        """Say once that this session cannot be made smaller, and do not try again until it has grown."""
        if not self._stuck and not told:
            self._once(HELPLESS.format(used=used, window=self._room.window))
        self._stuck = used
        self._shortener.fields[STUCK] = used

    def _once(self, text: str) -> None:
        if text not in self.notices:
            self.notices.append(text)

    def extend_settlement(self, made: Settlement) -> Settlement:
        """The end of the run with what compactions changed of the session's record, and what they cost."""
        fields, plan = self._shortener.fields, self._scene.plan
        touch = made.touch
        if fields and touch is not None:
            data = msgspec.json.encode({**msgspec.json.decode(touch.data, type=dict), **fields})
            touch = msgspec.structs.replace(touch, data=data)
        costs = to_ledger_rows(self._shortener.spent, plan.item, plan.id, plan.route.key, at=plan.started)
        cards = write_room_cards(self._shortener.spent, plan)
        return msgspec.structs.replace(made, touch=touch, spent=(*made.spent, *costs), steps=(*made.steps, *cards))


class CompactionOutcome(msgspec.Struct, frozen=True):
    """What became of a compaction somebody asked for."""

    done: CompactionResult | None
    before: int
    why: str = ""
    fields: Mapping[str, object] = MappingProxyType({})
    spent: tuple[UsageRow, ...] = ()


class CompactionRequest(msgspec.Struct, frozen=True):
    """A person's wish to have a session compacted that is not at work."""

    key: SessionKey
    session: SessionRecord
    transcript: Transcript
    models: tuple[ModelSpec, ...]
    prompt: Prompt
    specs: tuple[ToolSpec, ...]
    instructions: str = ""
    busy: Callable[[], bool] = lambda: False  # has a run of it begun meanwhile?
    shared: bool = False  # others than the owner write there: no notes are made of it


async def compact_by_hand(
    shared: CompactionCoordinator, wish: CompactionRequest, store: Store, claim: RunClaim
) -> CompactionOutcome:
    """Compact now. The line is on disk when this returns; a kill before that has changed nothing, and one after it is
    known by the line's `item`. Nothing stays but what `keepRecentTokens` asks for."""
    settings = shared.services.settings
    clock, transcript, agent = shared.services.clock, wish.transcript, shared.services.agents[wish.key.agent]
    room = drafts.measure_room(
        resolve_window(agent, wish.models[0]), count_overhead_tokens(wish.prompt, wish.specs), settings
    )
    subject = CompactionSubject(
        wish.key, agent, wish.session, transcript, models=wish.models, room=room, abort=Abort(),
        writes=any(spec.name == WRITER for spec in wish.specs) and not wish.shared,
    )  # fmt: skip
    made = Shortener(shared.services, subject)
    seen, fixed = transcript.messages(), count_overhead_tokens(wish.prompt, wish.specs)
    before = max(
        count_request_tokens(seen, transcript.older_count, fixed, 1.0, size=estimate_tokens(seen)),
        fixed + estimate_tokens(seen),
    )

    async def write(entry: CompactionEntry) -> None:
        if wish.busy():
            raise StaleClaim("a run of the session has begun")
        mark = transcript.mark()
        lines = transcript.add_entry(msgspec.structs.replace(entry, item=claim.id), clock.now())
        try:
            await store.append(claim, lines)
        except StateError:
            transcript.rollback(mark, lines)
            raise

    async with shared.lock(str(wish.key)):
        keeping = drafts.choose_kept_tokens(room, settings) if settings.keep_asked else 0
        draft = await made.draft(keeping, least=False)
        if draft is None:
            return CompactionOutcome(None, before, "there is nothing to compact")
        try:
            done = await made.shorten(draft, "manual", before, write, asked=wish.instructions)
        except StaleClaim:
            shared.ask(str(wish.key), wish.instructions)
            return CompactionOutcome(None, before, "a message came meanwhile; its run compacts the conversation")
    costs = to_ledger_rows(made.spent, claim.id, claim.id, wish.key, at=clock.now())
    if isinstance(done, ModelFailure):
        return CompactionOutcome(None, before, done.message, made.fields, spent=costs)
    done = msgspec.structs.replace(done, after=done.after + fixed)
    return CompactionOutcome(done, before, "", made.fields, spent=costs)


def count_request_tokens(messages: Sequence[Message], kept: int, fixed: int, scale: float, size: int) -> int:
    """Tokens of a request: what the provider counted last, and an estimate of what came since.

    Where it counted nothing, `fixed` stands for prompt and tools. Some servers count only what they had not cached:
    never less than a part of our own estimate (`size` of the messages) is believed.
    """
    known = any(
        isinstance(m, AssistantMessage) and not m.failed and count_used_tokens(m.usage) for m in messages[kept:]
    )
    found = estimate_context_tokens(messages, kept, scale) + (0 if known else fixed)
    return max(found, round((size * scale + fixed) * BELIEVED))


def count_overhead_tokens(prompt: Prompt, specs: Sequence[ToolSpec]) -> int:
    """Tokens of a request besides its messages."""
    return (len(prompt.text) + count_characters(specs)) // CHARS_PER_TOKEN


def to_ledger_rows(
    answers: Sequence[AssistantMessage], item: str, run: str, key: SessionKey, at: int
) -> tuple[UsageRow, ...]:
    """Lines of the ledger."""
    return tuple(
        UsageRow(
            item, run, str(key), key.agent, provider=a.provider, model=a.model, at=a.timestamp or at,
            input=a.usage.input, output=a.usage.output, cache_read=a.usage.cacheRead, cache_write=a.usage.cacheWrite,
            cost=a.usage.cost.total if a.usage.cost else None,
        )
        for a in answers
    )  # fmt: skip
