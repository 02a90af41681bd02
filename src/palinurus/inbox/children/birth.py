"""From an order to a sub-agent's session: whether it may be, which model and rights it has, what it knows.

`plan` looks and decides, `furnish` writes. What it may do is never more than what its parent may.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from palinurus.clock import Clock
from palinurus.config.settings import Settings
from palinurus.core.levels import words as levels
from palinurus.core.policy.depth import find_subagent_role
from palinurus.core.types.inbound import Inbound
from palinurus.core.types.keys import SessionKey, parse_session_key
from palinurus.core.types.messages import AssistantMessage
from palinurus.core.types.model import ModelFailure
from palinurus.inbox.children import files, rules, words
from palinurus.inbox.children.record import SubagentRecord, make_run_id, strip_content
from palinurus.providers.catalog import Catalog
from palinurus.sessions import moves
from palinurus.sessions.entries import MessageEntry
from palinurus.sessions.record import SessionRecord
from palinurus.sessions.transcript import Transcript, Transcripts
from palinurus.store.port import Store
from palinurus.tools.spawn import SpawnOrder

FORK = 400_000  # bytes of a conversation that a sub-agent may begin with
LABEL = 120


class SpawnRefusal(NamedTuple):
    status: str  # forbidden or error
    error: str


class SubagentParts(NamedTuple):
    """What sub-agents are made of."""

    settings: Settings
    catalog: Catalog
    store: Store
    transcripts: Transcripts
    clock: Clock
    offered: Callable[
        [SessionKey, Inbound, SessionRecord], tuple[str, ...]
    ]  # the tools that a session has for a message
    workspace: Callable[[SessionKey], str]  # where the tools of a session work


class SpawnPlan(NamedTuple):
    """Decided, not written."""

    child: SubagentRecord
    caller: SessionKey
    key: SessionKey
    record: SessionRecord
    parent: SessionRecord
    files: dict[str, bytes]
    fork: bool


async def plan_spawn(parts: SubagentParts, order: SpawnOrder) -> SpawnPlan | SpawnRefusal:
    """All but the number of its siblings is checked here."""
    settings, caller = parts.settings, parse_session_key(order.caller)
    if caller is None or caller.agent not in settings.agents:
        return SpawnRefusal("error", f"no session {order.caller[:120]}")
    row = await parts.store.session(order.caller)
    now = parts.clock.now()
    parent = SessionRecord.decode(row.data) if row else SessionRecord.fresh(caller, now, "none")
    depth = max(caller.depth, parent.spawnDepth or 0)
    ident = make_run_id(order.caller, order.asker, order.call, order.task)
    key = SessionKey(order.agent or caller.agent, f"subagent:{ident}")
    refused = rules.check_depth(settings, caller, depth) or rules.check_agent(settings, caller, order.agent)
    refused = refused or rules.check_sandbox(settings, caller, key, order.boxed)
    if refused:
        return SpawnRefusal("forbidden", refused)
    chosen = _chosen(parts, key.agent, order)
    if isinstance(chosen, SpawnRefusal):
        return chosen
    given = files.read_attachments(order.attachments)
    if isinstance(given, str):
        return SpawnRefusal("error", given)
    limit = settings.subagents[key.agent].timeout if order.timeout is None else order.timeout
    child = SubagentRecord(
        ident,
        order.caller,
        str(key),
        order.task,
        strip_content(order.asker),
        now,
        "new",
        text=order.task,
        call=order.call,
        depth=depth + 1,
        label=order.label[:LABEL],
        model=_named(parts, key.agent, chosen),
        timeout=limit,
        delete=order.delete,
        source=words.choose_source(order.taint),
    )
    record = msgspec.structs.replace(
        SessionRecord.fresh(key, now, ident), **chosen, **_family(settings, order, key, depth + 1)
    )
    allow = list(parts.offered(caller, order.asker, parent))
    extra = {**_held_back(parent), "inheritedToolAllow": allow}
    record = msgspec.structs.replace(record, extra=extra)
    return SpawnPlan(child, caller, key, record, parent, given, order.fork and key.agent == caller.agent)


def _chosen(parts: SubagentParts, agent: str, order: SpawnOrder) -> dict[str, Any] | SpawnRefusal:
    """Model and level: what was asked for, then what the config says for sub-agents; nothing: the agent's own."""
    own = parts.settings.subagents[agent]
    fields: dict[str, Any] = {}
    if name := order.model or own.model:
        model = parts.catalog.find(name, parts.settings.agents[agent])
        if isinstance(model, ModelFailure):
            return SpawnRefusal("error", f"model: {model.message}")
        # Nobody chose it by hand: where it fails, the agent's fallbacks stand in.
        chosen = {"providerOverride": model.ref.provider, "modelOverride": model.ref.model}
        fields = {**chosen, "modelOverrideSource": "auto"}
    if word := order.thinking or own.thinking:
        level = levels.parse_thinking(word)
        if level is None:
            return SpawnRefusal("error", f"thinking: {word[:40]!r} is no level")
        fields["thinkingLevel"] = level
    return fields


def _named(parts: SubagentParts, agent: str, chosen: dict[str, Any]) -> str:
    if "modelOverride" in chosen:
        return f"{chosen['providerOverride']}/{chosen['modelOverride']}"
    return str(parts.catalog.default(parts.settings.agents[agent]).ref)


def _family(settings: Settings, order: SpawnOrder, key: SessionKey, depth: int) -> dict[str, Any]:
    mine = find_subagent_role(depth, rules.get_max_depth(settings, key.agent))
    return {
        "label": order.label[:LABEL] or None,
        "spawnedBy": order.caller,
        "parentSessionKey": order.caller,
        "spawnDepth": depth,
        "subagentRole": mine,
        "subagentControlScope": "children" if mine == "orchestrator" else "none",
    }


def _held_back(parent: SessionRecord) -> dict[str, Any]:
    """What somebody forbade in the parent's session holds for its children."""
    kept = ("execSecurity", "inheritedToolDeny")
    return {name: parent.extra[name] for name in kept if name in parent.extra}


async def furnish_session(parts: SubagentParts, birth: SpawnPlan) -> tuple[SubagentRecord, str]:
    """Files, conversation, session row, in this order: killed in between, an unused session is all that is left.

    Returns the child with what it is told, and a note for the one who asked. Raises OSError, StateError kinds.
    """
    child, note = birth.child, ""
    if birth.files:
        workspace = parts.workspace(birth.key)
        folder = await asyncio.to_thread(files.write_attachments, workspace, child.id, birth.files)
        names = "\n".join(f"- {os.path.relpath(folder, workspace)}/{name}" for name in birth.files)
        text = f"{child.task}\n\nFiles for this task, in your workspace:\n{names}"
        child = msgspec.structs.replace(child, folder=folder, text=text)
    if birth.fork:
        path = birth.parent.path(birth.caller.agent)
        transcript = await parts.transcripts.load(path, parts.settings.agents[birth.caller.agent].workspace)
        if transcript.size <= FORK:
            record = msgspec.structs.replace(birth.record, forkedFromParent=True)
            entry, now = _before(transcript, child.call), parts.clock.now()
            await moves.create_branch(parts.settings.home, parts.store, transcript, record, birth.key, entry, now)
            return child, note
        note = "the conversation is too long to be copied; the sub-agent knows only its task"
    await parts.store.save_session(birth.record.row(birth.key))
    return child, note


def _before(transcript: Transcript, call: str) -> str | None:
    """The entry before the answer that holds this call: the child's conversation has no open calls."""
    path = transcript.path_to_leaf()
    for at in range(len(path) - 1, -1, -1):
        entry = path[at]
        message = entry.message if isinstance(entry, MessageEntry) else None
        if isinstance(message, AssistantMessage) and any(one.id == call for one in message.calls):
            return path[at - 1].id if at else None
    return path[-1].id if path else None
