"""chat.why, runs.*, record.*: why an answer is as it is, what happened on the way to it, and that again. Ours."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import msgspec

from palinurus.agent.promptcache import FIXES, CacheSnapshot, explain_last_request, find_breaking_message, locate_break
from palinurus.agent.tapes.deck import ALL
from palinurus.agent.tapes.tape import read_tape
from palinurus.agent.tapes.view import describe_diff, describe_tape
from palinurus.core.types.card import CARD
from palinurus.core.types.inbound import decode_inbound
from palinurus.core.types.messages import AssistantMessage, ToolResult, UserMessage
from palinurus.gateway.context import SessionParams, require
from palinurus.gateway.methods.tools import judge_tools, list_hidden_tools
from palinurus.gateway.rpc import ADMIN, READ, GatewayMethod, MethodCall, MethodError, MethodParams, NonEmpty
from palinurus.gateway.views import SessionSnapshot
from palinurus.inbox.commands.command import CommandContext
from palinurus.services.facts import gather_facts
from palinurus.services.why import describe_run, load_run_facts
from palinurus.sessions.entries import MessageEntry
from palinurus.sessions.record import SessionRecord
from palinurus.sessions.transcript import Transcript
from palinurus.store.port import InboxRow, UsageRow

# Where the steps of a run stand in the transcript: each line of a timeline gets the entry it led to, so that one can
# branch from it. Pure. The two are kept apart on disk and have only order, names and token counts in common.

_Mark: TypeAlias = tuple[object, ...]


def link_timeline_entries(timeline: list[dict[str, Any]], entries: Iterable[MessageEntry]) -> list[dict[str, Any]]:
    """The timeline with `entry` (and `call`, for tools) on every line whose entry is known."""
    waiting: dict[_Mark, deque[dict[str, str]]] = defaultdict(deque)
    for entry in entries:
        message, here = entry.message, {"entry": entry.id}
        if isinstance(message, UserMessage):
            waiting["accepted",].append(here)
        elif isinstance(message, AssistantMessage):
            used = message.usage
            waiting["model", f"{message.provider}/{message.model}", used.input, used.output].append(here)
            for call in message.calls:
                waiting["tool", call.name].append({**here, "call": call.id})
        elif isinstance(message, ToolResult):
            waiting["result", message.toolName].append({**here, "call": message.toolCallId})
    return [{**line, **(found.popleft() if (found := waiting[_mark(line)]) else {})} for line in timeline]


def _mark(line: dict[str, Any]) -> _Mark:
    kind, detail = line["kind"], str(line.get("detail", ""))
    if kind == "model":
        return kind, detail, line.get("input"), line.get("output")
    return (kind, detail.partition(" ")[0]) if kind in ("tool", "result") else (kind,)


SHOWN = 2000  # characters of a result
REPLAY_SECONDS = 150.0


async def explain_message(
    program: CommandContext, seen: SessionSnapshot, transcript: Transcript, row: InboxRow, *, admin: bool
) -> dict[str, Any]:
    """Everything about one message of a session, as it was. What a run without cards left unsaid (level, prompt, tools)
    is told as it stands for the session's next run, and says so with `asOf`."""
    facts = await load_run_facts(program.store, transcript, row)
    told = describe_run(facts)
    record = seen.record or SessionRecord(sessionId="")
    now, look = gather_facts(program, seen.key, record), program.look(record.sessionId)
    judged = judge_tools(program, seen, decode_inbound(row.body))
    hidden = list_hidden_tools(program, judged, admin=admin)
    then = "run" if told["calls"] else "next"
    if told["tools"]["hidden"] is not None:  # what is known now of a tool that was hidden then, and is
        layers = {one["id"]: one for one in hidden}
        hidden = [layers.get(name, {"id": name, "reason": why}) for name, why in told["tools"]["hidden"].items()]
    return {
        **told,
        "sessionId": record.sessionId,
        "model": {
            **told["model"],
            "next": str(now.model.ref),
            "source": told["model"]["why"] or ("session" if record.modelOverride else "agent"),
        },
        "thinking": {**(told["thinking"] or {"level": now.level.level, "reason": now.level.reason}), "asOf": then},
        "prompt": told["prompt"] or await _prompt(program, seen, look),
        "cache": {**told["cache"], **_judge_cache(look, facts.calls, row)},
        "tools": {
            **told["tools"],
            "offered": list(judged.offered) if told["tools"]["offered"] is None else told["tools"]["offered"],
            "hidden": hidden,
            "asOf": then,
        },
    }


async def _prompt(program: CommandContext, seen: SessionSnapshot, look: CacheSnapshot | None) -> dict[str, Any]:
    """The sections of the last request if it was seen, else of the next one."""
    if look is not None:
        sections = [
            {"name": piece.name, "bytes": piece.size, "stable": piece.group == "stable"}
            for piece in look.pieces
            if piece.group in ("stable", "volatile")
        ]
        return {"asOf": look.at, "sections": sections}
    report = await program.prompt_report(seen.key, None) if program.prompt_report is not None else None
    parts = report.parts if report is not None else ()
    return {"asOf": "next", "sections": [{"name": p.name, "bytes": p.chars, "stable": p.stable} for p in parts]}


def _judge_cache(look: CacheSnapshot | None, calls: Sequence[UsageRow], row: InboxRow) -> dict[str, Any]:
    """A verdict, and the first difference to the request before, if one of this message's broke the prefix."""
    made: dict[str, Any] = {"verdict": explain_last_request(look, calls)}
    breaks = [found for found in look.breaks if find_breaking_message(found, [row])] if look is not None else []
    if breaks:
        what = breaks[0].what
        made["break"] = {"where": locate_break(what), "why": FIXES[what.cause], **msgspec.to_builtins(what)}
    return made


async def trace_message(program: CommandContext, transcript: Transcript | None, row: InboxRow) -> dict[str, Any]:
    """Every model request and every tool call of one message, and what else was recorded, in order."""
    steps = await program.store.trace(row.id)
    calls = [call for call in await program.store.list_usage(row.at) if call.item == row.id]
    timeline = [
        {"at": step.at, "kind": step.what, "detail": step.detail} for step in steps if step.what not in ("model", CARD)
    ]
    timeline += [_model(call) for call in calls]
    entries = (
        [entry for entry in transcript.entries_of(row.id) if isinstance(entry, MessageEntry)] if transcript else []
    )
    said = [entry.message for entry in entries]
    asked = {call.id: call for m in said if isinstance(m, AssistantMessage) for call in m.calls}
    ended = [m for m in said if isinstance(m, ToolResult)]
    return {
        "item": row.id,
        "sessionKey": row.session,
        "lane": row.lane,
        "state": row.state,
        "outcome": row.outcome,
        "attempts": row.attempts,
        "acceptedAt": row.at,
        "startedAt": row.claimed or None,
        "endedAt": row.settled or None,
        "absorbedBy": row.absorbed_by or None,
        "timeline": link_timeline_entries(sorted(timeline, key=lambda line: line["at"]), entries),
        "tools": [
            {
                "id": result.toolCallId,
                "name": result.toolName,
                "args": asked[result.toolCallId].arguments if result.toolCallId in asked else None,
                "endedAt": result.timestamp,
                "isError": result.isError,
                "result": result.text[:SHOWN],
            }
            for result in ended
        ],
    }


def _model(call: UsageRow) -> dict[str, Any]:
    return {
        "at": call.at,
        "kind": "model",
        "detail": f"{call.provider}/{call.model}",
        "startedAt": call.at - call.ms,
        "ms": call.ms,
        "input": call.input,
        "output": call.output,
        "cacheRead": call.cache_read,
        "cacheWrite": call.cache_write,
        "cost": call.cost,
    }


class ChatWhyParams(SessionParams, frozen=True):
    message_id: NonEmpty | None = None
    item: NonEmpty | None = None
    facts: bool = False  # ours: only what is on file about the run, as `pal why` tells it


class RunTraceParams(MethodParams, frozen=True):
    item: NonEmpty  # or what its client calls the run


async def explain_chat(call: MethodCall, asked: ChatWhyParams) -> dict[str, Any]:
    """All about one message of a session; without a name, about the last one."""
    here = call.context
    seen, transcript = await here.reader.open(asked.resolve(call))
    if transcript is None:
        raise MethodError("session not found")
    ident = asked.item or _item(transcript, asked.message_id)
    row = await here.program.store.item(ident) if ident else None
    if row is None or not transcript.entries_of(row.id):
        raise MethodError("nothing is on file about this message")
    if asked.facts:
        return describe_run(await load_run_facts(here.program.store, transcript, row))
    return await explain_message(here.program, seen, transcript, row, admin=call.client.may(ADMIN))


def _item(transcript: Transcript, message: str | None) -> str:
    if message is not None:
        entry = transcript.entry(message)
        return entry.item if entry is not None else ""
    return next((entry.item for entry in reversed(transcript.path_to_leaf()) if entry.item), "")


async def trace_run(call: MethodCall, asked: RunTraceParams) -> dict[str, Any]:
    """The timeline of one message."""
    here = call.context
    run = here.broadcaster.run(asked.item)
    ended = here.broadcaster.end(asked.item)
    ident = run.item if run is not None else ended.item if ended is not None else asked.item
    row = await here.program.store.item(ident)
    if row is None:
        raise MethodError(f"no message {asked.item[:64]}")
    _, transcript = await here.reader.read(row.session)
    return await trace_message(here.program, transcript, row)


# Runs on tape (`agent/tapes`), and a replay of one: in a process of its own, which reaches nobody.


class RecordParams(MethodParams, frozen=True):
    on: bool | None = None  # None: as the setting says
    session_key: NonEmpty | None = None


class TapeParams(MethodParams, frozen=True):
    item: NonEmpty


class ReplayParams(TapeParams, frozen=True):
    frozen: bool = False


class DiffParams(MethodParams, frozen=True):
    a: NonEmpty
    b: NonEmpty


async def describe_recording(call: MethodCall, asked: MethodParams) -> dict[str, Any]:
    """What is recorded, and which tapes there are."""
    return require(call.program.tapes, "nothing is recorded here").describe()


async def choose_recording(call: MethodCall, asked: RecordParams) -> dict[str, Any]:
    """Record all sessions, or one; on disk when it returns."""
    tapes = require(call.program.tapes, "nothing is recorded here")
    await tapes.choose(asked.session_key or ALL, asked.on)
    return tapes.describe()


async def show_tape(call: MethodCall, asked: TapeParams) -> dict[str, Any]:
    """The steps of a recorded run."""
    return describe_tape(await asyncio.to_thread(read_tape, call.program.settings.home, asked.item))


async def compare_runs(call: MethodCall, asked: DiffParams) -> dict[str, Any]:
    """Two recorded runs side by side. What differs in their prompts is the owner's alone: his notes are among it."""
    home = call.program.settings.home
    a, b = [await asyncio.to_thread(read_tape, home, item) for item in (asked.a, asked.b)]
    told = describe_diff(a, b)
    for one in told["differences"] if not call.client.may(ADMIN) else ():
        one |= {"recorded": "", "now": ""}
    return told


async def replay_run(call: MethodCall, asked: ReplayParams) -> dict[str, Any]:
    """The verdict of a replay."""
    tape = await asyncio.to_thread(read_tape, call.program.settings.home, asked.item)  # a word of ours, not theirs
    words = ("-m", "palinurus", "replay", tape.head.item, "--json", *(("--frozen",) if asked.frozen else ()))
    environ = {**os.environ, "PALINURUS_HOME": call.program.settings.home}
    child = await asyncio.create_subprocess_exec(
        sys.executable, *words, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, env=environ
    )
    try:
        said, wrong = await asyncio.wait_for(child.communicate(), REPLAY_SECONDS)
    except TimeoutError:
        child.kill()
        raise MethodError("the replay took too long", code="UNAVAILABLE") from None
    if child.returncode not in (0, 1) or not said.strip():
        raise MethodError(wrong.decode("utf-8", "replace").strip()[:SHOWN] or "the replay broke")
    return msgspec.json.decode(said, type=dict[str, Any])


METHODS: tuple[GatewayMethod, ...] = (
    GatewayMethod("record.status", READ, MethodParams, describe_recording),
    GatewayMethod("record.set", ADMIN, RecordParams, choose_recording),
    GatewayMethod("runs.tape", READ, TapeParams, show_tape),
    GatewayMethod("runs.diff", READ, DiffParams, compare_runs),
    GatewayMethod("runs.replay", ADMIN, ReplayParams, replay_run),
    GatewayMethod("chat.why", READ, ChatWhyParams, explain_chat),
    GatewayMethod("runs.trace", READ, RunTraceParams, trace_run),
)
