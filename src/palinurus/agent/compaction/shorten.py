"""One compaction of one session, from the draft to the line on disk: memory flush, summary, entry, hooks.

Used by a run that needs room and by a person who asks for it; they differ in who writes the line. Until that line is
written nothing has changed, and every failure before it leaves things as they were.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from palinurus.abort import Abort
from palinurus.agent.compaction import drafts
from palinurus.agent.compaction.coordinator import CompactionServices
from palinurus.agent.compaction.drafts import CompactionDraft, CompactionRoom
from palinurus.agent.compaction.flush import flush_memory, locate_daily_notes
from palinurus.agent.compaction.summarize import HistorySummary, SummaryClient, SummaryJob, summarize
from palinurus.agent.marks import find_session_taint
from palinurus.config.settings import AgentSettings
from palinurus.config.zones import find_zone
from palinurus.core.history import compaction, verbatim
from palinurus.core.history.tokens import estimate_tokens
from palinurus.core.types.keys import SessionKey
from palinurus.core.types.messages import AssistantMessage, Message
from palinurus.core.types.model import ModelFailure, ModelSpec
from palinurus.crashpoints import pass_crashpoint
from palinurus.sessions.compactions import count_compactions
from palinurus.sessions.entries import CompactionEntry, make_summary_message
from palinurus.sessions.record import SessionRecord
from palinurus.sessions.transcript import Transcript
from palinurus.taping import ask_taped_now
from palinurus.tools.watches import get_persona_watches
from palinurus.workspace.memory.files import MemoryRoots
from palinurus.workspace.texts import FileTexts

log = logging.getLogger(__name__)

AGENTS_FILE = "AGENTS.md"
WRITER = "write"  # an agent without this tool may not write its memory either

Write = Callable[[CompactionEntry], Awaitable[None]]


class CompactionSubject(msgspec.Struct, frozen=True):
    """The session a compaction is about, as it stands."""

    key: SessionKey
    agent: AgentSettings
    session: SessionRecord
    transcript: Transcript
    models: tuple[ModelSpec, ...]
    room: CompactionRoom
    abort: Abort
    writes: bool  # may the agent write its memory?
    scale: float = 1.0
    run: str = ""


class CompactionResult(msgspec.Struct, frozen=True):
    """The compaction is on disk."""

    entry: CompactionEntry
    gone: int  # messages
    after: int  # tokens of what the model sees now, by our estimate


class Shortener:
    """The compactions of one session in one run. `spent` is what they cost; `fields` goes into the session's record."""

    def __init__(self, services: CompactionServices, subject: CompactionSubject) -> None:
        self._s = services
        self._of = subject
        self.spent: list[AssistantMessage] = []
        self.fields: dict[str, Any] = {}

    @property
    def plan(self) -> tuple[str, ...]:
        """What must be said again: the agent's plan, and what else still stands."""
        stands = ask_taped_now("standing", lambda: self._s.standing(str(self._of.key)), tuple[str, ...])
        return (*drafts.find_plan_steps(self._of.transcript.path_to_leaf()), *stands)

    @property
    def rules(self) -> str:
        """The sections of AGENTS.md that the config wants said again."""
        agent, names = self._of.agent, self._s.settings.sections
        found = FileTexts().read(agent.workspace, AGENTS_FILE).text if names else None
        return compaction.excerpt_sections(found, names, agent.excerpt_chars) if found else ""

    async def draft(self, keeping: int, *, least: bool = True) -> CompactionDraft | None:
        """What would go and what would stay. In a thread: every word of a long conversation is looked at."""
        turns = self._s.settings.recent_turns
        path, keep = self._of.transcript.path_to_leaf(), round(keeping / self._of.scale)
        return await asyncio.to_thread(drafts.draft_compaction, path, keep, self._of.room, turns=turns, least=least)

    async def shorten(
        self, made: CompactionDraft, reason: str, before: int, write: Write, asked: str = ""
    ) -> CompactionResult | ModelFailure:
        """Summarise and write. A Failure has changed nothing but, perhaps, today's notes."""
        s, of = self._s, self._of
        s.hooks.observe("before_compaction", self._told(made, before))
        if self.flushable:
            await self.flush(made.gone)
        said = await summarize(self._job(made, asked), self._asker(s.settings.model), s.settings)
        if isinstance(said, ModelFailure):
            log.warning("session %s: not compacted: %s", of.key, said.message)
            return said
        entry = self._entry(made, said, reason, before, asked=asked)
        size = drafts.weigh_messages((make_summary_message(entry.summary, 0), *made.tail), of.scale)
        if (
            estimate_tokens((make_summary_message(entry.summary, 0),))
            >= estimate_tokens(made.gone) + len(made.before) // drafts.CHARS
        ):
            return ModelFailure("malformed", "the summary is longer than what it stands for")
        pass_crashpoint("compact.before")
        await write(entry)
        pass_crashpoint("compact.after")
        self._counted()
        s.forget(of.session.sessionId)
        told = {"messageCount": len(made.tail) + 1, "compactedCount": len(made.gone), "tokenCount": size}
        s.hooks.observe("after_compaction", {**self._who(), **told})
        return CompactionResult(entry, len(made.gone), size)

    # --- the memory flush -------------------------------------------------------------------------------------

    @property
    def flushable(self) -> bool:
        """May the agent write its notes now? Once between two compactions."""
        if not self._s.settings.flush.enabled or not self._of.writes:
            return False
        done = self.fields.get("memoryFlushCompactionCount", self._of.session.memoryFlushCompactionCount)
        return bool(done != self._count)

    async def flush(self, messages: tuple[Message, ...]) -> None:
        """Let it. Whatever comes of it, that was it until the next compaction."""
        s, of = self._s, self._of
        now = s.clock.now()
        path = locate_daily_notes(now, find_zone(of.agent.user_timezone))
        rules = s.settings.flush
        await self._marked(os.path.join(os.path.realpath(of.agent.workspace), path))
        failed = await flush_memory(
            messages, self._asker(rules.model), MemoryRoots(of.agent.workspace), path, settings=rules
        )
        get_persona_watches().accept((os.path.join(os.path.realpath(of.agent.workspace), path),))
        self.fields |= {"memoryFlushAt": now, "memoryFlushCompactionCount": self._count}
        if failed:
            log.info("session %s: memory flush: %s", of.key, failed)
            before = of.session.extra.get("memoryFlushFailureCount")
            self.fields["memoryFlushFailureCount"] = (before if isinstance(before, int) else 0) + 1
        told = {"toolName": WRITER, "params": {"path": path}, "toolCallId": "", "runId": of.run}
        s.hooks.observe("after_tool_call", {**self._who(), **told, "durationMs": s.clock.now() - now})

    # --- inside -----------------------------------------------------------------------------------------------

    async def _marked(self, path: str) -> None:
        """Notes that are made of untrusted content are untrusted, too. Raises StateError kinds."""
        if self._s.mark is not None and (found := find_session_taint(self._of.transcript)):
            await self._s.mark(path, found)

    @property
    def _count(self) -> int:
        """Compactions so far: as the record says, or more if the file holds more."""
        return max(self._of.transcript.gather(count_compactions, 0), self._of.session.compactionCount or 0)

    def _counted(self) -> None:
        count = max(self._of.transcript.gather(count_compactions, 0), (self._of.session.compactionCount or 0) + 1)
        self.fields |= {"compactionCount": count, "totalTokensFresh": False}

    def _asker(self, chosen: str) -> SummaryClient:
        s, of = self._s, self._of
        found = s.catalog.find(chosen, of.agent) if chosen else None
        own = tuple(m for m in of.models if not isinstance(found, ModelSpec) or m.ref != found.ref)
        models = (found, *own) if isinstance(found, ModelSpec) else own
        return SummaryClient(s.model, s.clock, of.abort, models, owner=str(of.key), spent=self.spent)

    def _job(self, made: CompactionDraft, asked: str) -> SummaryJob:
        settings = self._s.settings
        wishes = compaction.list_extra_instructions(
            settings.identifiers, settings.identifier_text, settings.instructions, asked
        )
        most = max(500, min(int(settings.reserve_for(self._of.room.window) * 0.8), self._of.room.text // drafts.CHARS))
        return SummaryJob(made.history, made.prefix, made.before, wishes, tokens=most)

    def _entry(
        self, made: CompactionDraft, said: HistorySummary, reason: str, before: int, asked: str
    ) -> CompactionEntry:
        parts = compaction.CompactionParts(
            said.text,
            verbatim.render_kept_lines(made.kept),
            said.turn,
            made.recent,
            standing=self.plan,
            rules=self.rules,
        )
        text = compaction.write_compaction(parts, self._of.room.text)
        size = drafts.weigh_messages((make_summary_message(text, 0), *made.tail), self._of.scale)
        told = drafts.describe_compaction(made, reason, size, asked)
        return CompactionEntry(summary=text, firstKeptEntryId=made.first, tokensBefore=before, details=told)

    def _told(self, made: CompactionDraft, before: int) -> dict[str, Any]:
        told: dict[str, Any] = {
            "messageCount": len(made.gone) + len(made.tail),
            "compactingCount": len(made.gone),
            "tokenCount": before,
        }
        if self._s.hooks.has("before_compaction"):
            told["messages"] = [msgspec.to_builtins(m) for m in (*made.gone, *made.tail)]
        return {**self._who(), **told}

    def _who(self) -> dict[str, Any]:
        of = self._of
        ids = {"sessionKey": str(of.key), "agentId": of.key.agent, "sessionId": of.session.sessionId}
        return {**ids, "sessionFile": of.transcript.path}
