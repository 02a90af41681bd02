"""/new and /reset: the next session of this chat begins. What people switched is kept; the old transcript stays.

`/new MODEL` chooses its model, text behind it becomes its first message. The new session's id comes from the
command's own id: after a crash the second try finds, or makes, the same session.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from typing import Any

import msgspec

from palinurus.agent.plan.opening import STARTUP_FLAG
from palinurus.core.levels import thinking
from palinurus.core.types.model import ModelSpec
from palinurus.inbox.commands.command import CommandAnswer, CommandCall
from palinurus.inbox.commands.runs import make_followup
from palinurus.services.facts import change_record, find_session_model
from palinurus.sessions.lifecycle import make_reset_payload, roll_over
from palinurus.sessions.record import SessionRecord

_SPACE = uuid.UUID("6f9d0a3e-6d5c-4e0c-9b0e-5d6c8f1c2a77")
PATIENCE = 5.0  # seconds for the old run to end


async def run_reset(call: CommandCall) -> CommandAnswer:
    """Stops a run that is going, then the record rolls over."""
    ident = make_session_id(call.claim.id)
    model, text = _first(call)
    row = await call.program.store.session(str(call.key))
    record = SessionRecord.decode(row.data) if row else None
    if record is None or ident not in (record.sessionId, *(record.usageFamilySessionIds or ())):
        await _quiet(call)
        record = await _rolled(call, ident, model)
    said = "✅ New session started" if call.name == "new" else "✅ Session reset"
    said += f" · model: {find_session_model(call.program.catalog, call.agent, record).ref}"
    if not text and not call.inbound.images:
        # Bare: its first turn may begin with the notes of the last days.
        flag = {STARTUP_FLAG: True} if call.agent.startup.applies(call.name) else {}
        return CommandAnswer(said, msgspec.structs.replace(record, extra={**record.extra, **flag}))
    return CommandAnswer(said, record, make_followup(call, text))


def make_session_id(claim: str) -> str:
    """The id of the session that this command begins."""
    return str(uuid.uuid5(_SPACE, claim))


def _first(call: CommandCall) -> tuple[ModelSpec | None, str]:
    """The model named first, if one is, and the text behind it."""
    text = call.args.strip()
    word, _, rest = text.partition(" ")
    word, catalog, agent = word.strip(), call.program.catalog, call.agent
    if not word or "\n" in word:
        return None, text
    aliased = word.lower() in {alias.lower() for alias in agent.aliases}
    named = "/" in word or any(c.isdigit() for c in word)
    if aliased or named:
        found = catalog.find(word, agent)
        if isinstance(found, ModelSpec):
            return found, rest.strip()
    if not rest:  # a provider by itself: its first model
        first = next((m for m in catalog.all(agent) if m.ref.provider == word.lower()), None)
        return first, "" if first else text
    return None, text


async def _quiet(call: CommandCall) -> None:
    """The old run is stopped, and gets a moment to write down how it ended. Its sub-agents report to the new one."""
    inbox, key = call.program.inbox, str(call.key)
    running = [row.id for row in await call.program.store.list_running() if row.session == key]
    if (await inbox.stop(key, "stop", before=call.behind, children=False)).ran and running:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(inbox.wait(running[0]), PATIENCE)


async def _rolled(call: CommandCall, ident: str, model: ModelSpec | None) -> SessionRecord:
    program, now = call.program, call.program.clock.now()
    row = await program.store.session(str(call.key))  # again: the run just stopped has written to it
    if row is None:
        fresh = SessionRecord.fresh(call.key, now, ident)
    else:
        old = SessionRecord.decode(row.data)
        await _tell(call, old, ident)
        fresh = roll_over(old, call.key, now, ident, asked=True)
    if model is None:
        return fresh
    changes: dict[str, Any] = {
        "providerOverride": model.ref.provider,
        "modelOverride": model.ref.model,
        "modelOverrideSource": "user",
    }
    if fresh.thinkingLevel is not None:
        offered = thinking.find_thinking_profile(model, program.catalog.rules(model.ref.provider))
        changes["thinkingLevel"] = thinking.remap_level(fresh.thinkingLevel, offered)
    return change_record(fresh, changes, now)


async def _tell(call: CommandCall, old: SessionRecord, following: str) -> None:
    """Hooks hear of the end and of the beginning. Told again if a crash makes this run again."""
    hooks, key = call.program.hooks, call.key
    messages: list[Any] = []
    if hooks.has("before_reset"):
        transcript = await call.program.transcripts.load(old.path(key.agent), call.agent.workspace)
        messages = [msgspec.to_builtins(m) for m in transcript.messages()]
    hooks.observe("before_reset", make_reset_payload(key, old, call.name, messages))
    ids = {"sessionKey": str(key), "agentId": key.agent}
    ended = {"sessionId": old.sessionId, "reason": call.name, "nextSessionId": following}
    hooks.observe("session_end", {**ids, **ended, "sessionFile": old.path(key.agent)})
    hooks.observe("session_start", {**ids, "sessionId": following, "resumedFrom": old.sessionId})
