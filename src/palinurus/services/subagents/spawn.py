"""From an order to a sub-agent's session: whether it may be, which model and rights it has, what it knows.

`plan` looks and decides, `furnish` writes. What it may do is never more than what its parent may.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import os
import shutil
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from palinurus.agent.plan.levels import find_mode
from palinurus.agent.plan.sandbox import is_sandboxed
from palinurus.beneath import create_file_beneath, open_folder_beneath
from palinurus.clock import Clock
from palinurus.config.sections.tools import SpawnFileRules
from palinurus.config.settings import Settings
from palinurus.core.levels import spellings as levels
from palinurus.core.policy.audience import SHARED
from palinurus.core.policy.layers import find_subagent_role
from palinurus.core.policy.modes import limit_mode
from palinurus.core.types.inbound import Inbound
from palinurus.core.types.keys import SessionKey, parse_session_key
from palinurus.core.types.messages import AssistantMessage
from palinurus.core.types.model import ModelFailure
from palinurus.plugins.hooks import Hooks
from palinurus.providers.catalog import Catalog
from palinurus.services.inbox import InboxPort
from palinurus.services.subagents import texts
from palinurus.services.subagents.registry import SubagentRecord, make_run_id, strip_content
from palinurus.sessions import lifecycle
from palinurus.sessions.entries import MessageEntry
from palinurus.sessions.record import SessionRecord
from palinurus.sessions.transcript import Transcript, Transcripts
from palinurus.store.port import Store
from palinurus.tools.program.subagents import SpawnOrder, SubagentAttachment

# Files that a sub-agent is given: put into its workspace, taken away with it.
#
# The workspace belongs to agents, so nothing in it is trusted: no link is followed, nothing existing is overwritten.

FOLDER = ".attachments"
USUAL = SpawnFileRules()


def read_attachments(
    attachments: Sequence[SubagentAttachment], rules: SpawnFileRules = USUAL
) -> dict[str, bytes] | str:
    """By name; or what is wrong with them."""
    found: dict[str, bytes] = {}
    if attachments and not rules.enabled:
        return "attachments: sub-agents are given no files here (tools.sessions_spawn.attachments.enabled)"
    if len(attachments) > rules.files:
        return f"attachments: {len(attachments)} files are more than {rules.files}"
    for one in attachments:
        name = one.name.strip()
        if not name or name in (".", "..") or len(name.encode(errors="replace")) > 200 or set(name) & set("/\\\0"):
            return f"attachments: {name[:60]!r} cannot be a file name"
        if name in found:
            return f"attachments: {name[:60]!r} is there twice"
        try:
            base = one.encoding == "base64"
            found[name] = base64.b64decode(one.content, validate=True) if base else one.content.encode()
        except (binascii.Error, ValueError) as exc:
            return f"attachments: {name[:60]!r} cannot be read: {exc}"
    for name, data in found.items():
        if len(data) > rules.file_bytes:
            return f"attachments: {name[:60]!r}: {len(data):,} bytes are more than {rules.file_bytes:,}"
    size = sum(map(len, found.values()))
    return f"attachments: {size:,} bytes are more than {rules.total:,}" if size > rules.total else found


def write_attachments(workspace: str, ident: str, files: dict[str, bytes]) -> str:
    """Puts them there and returns the folder. Raises OSError."""
    with open_folder_beneath(os.path.realpath(workspace), FOLDER, make=0o700) as base:
        os.mkdir(ident, 0o700, dir_fd=base)
    for name, data in files.items():
        create_file_beneath(workspace, f"{FOLDER}/{ident}/{name}", data)
    return os.path.join(workspace, FOLDER, ident)


def remove_attachments(folder: str) -> None:
    """Takes them away, if they are still where they were put."""
    base, ident = os.path.split(folder)
    with contextlib.suppress(OSError):
        if ident:
            with open_folder_beneath(os.path.realpath(os.path.dirname(base)), os.path.basename(base)) as handle:
                shutil.rmtree(ident, ignore_errors=True, dir_fd=handle)


# Who may start which sub-agent. Pure: settings and counts in, the reason for a no out.


def get_max_depth(settings: Settings, agent: str) -> int:
    """How deep sub-agents of this agent's sessions may go (maxSpawnDepth)."""
    return settings.policy.deepest.get(agent, 1)


def can_start_subagents(settings: Settings, agent: str, depth: int) -> bool:
    """May a session of this depth start others?"""
    return depth < get_max_depth(settings, agent)


def check_depth(settings: Settings, caller: SessionKey, depth: int) -> str:
    """ "" if there is room below."""
    if can_start_subagents(settings, caller.agent, depth):
        return ""
    most = get_max_depth(settings, caller.agent)
    return f"this session is at depth {depth} and maxSpawnDepth is {most}: it cannot start sub-agents"


def check_count(settings: Settings, caller: SessionKey, active: int) -> str:
    """ "" if one more may run."""
    most = settings.subagents[caller.agent].children
    if active < most:
        return ""
    return f"{active} sub-agents of this session are running and maxChildrenPerAgent is {most}; wait for one to end"


def check_agent(settings: Settings, caller: SessionKey, wanted: str) -> str:
    """`wanted` is the agent id asked for, "" for none. "" if it may be started from here."""
    allowed = settings.reach.spawn.get(caller.agent, ())
    if not wanted:
        named = settings.subagents[caller.agent].named
        return "say which agent it is to be (agentId): subagents.requireAgentId is set" if named else ""
    if wanted != caller.agent and wanted not in allowed and "*" not in allowed:
        others = ", ".join(dict.fromkeys((caller.agent, *allowed)))
        return f"agent '{wanted[:64]}' may not be started from here (subagents.allowAgents: {others})"
    if wanted not in settings.agents:
        return f"there is no agent '{wanted[:64]}'"
    return ""


def check_sandbox(settings: Settings, caller: SessionKey, child: SessionKey, required: bool) -> str:
    """A sandboxed session never starts one outside. "" if it does not."""
    inside = is_sandboxed(settings.agents[child.agent], child)
    if required and not inside:
        return f"sandbox=require: sessions of agent '{child.agent}' are not sandboxed"
    if is_sandboxed(settings.agents[caller.agent], caller) and not inside:
        return f"this session is sandboxed and sub-agents of '{child.agent}' would not be"
    return ""


FORK = 400_000  # bytes of a conversation that a sub-agent may begin with
LABEL = 120


class SpawnRefusal(msgspec.Struct, frozen=True):
    status: str  # forbidden or error
    error: str


class SubagentParts(msgspec.Struct, frozen=True):
    """What sub-agents are made of."""

    settings: Settings
    catalog: Catalog
    store: Store
    transcripts: Transcripts
    clock: Clock
    hooks: Hooks
    inbox: InboxPort
    offered: Callable[
        [SessionKey, Inbound, SessionRecord], tuple[str, ...]
    ]  # the tools that a session has for a message
    workspace: Callable[[SessionKey, Inbound, str], str]  # where the tools of a session work for this asker
    end_commands: Callable[[str], Awaitable[object]]  # all that a session has in the background


class SpawnPlan(msgspec.Struct, frozen=True):
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
    refused = check_depth(settings, caller, depth) or check_agent(settings, caller, order.agent)
    refused = refused or check_sandbox(settings, caller, key, order.boxed)
    if refused:
        return SpawnRefusal("forbidden", refused)
    chosen = _chosen(parts, key.agent, order)
    if isinstance(chosen, SpawnRefusal):
        return chosen
    given = read_attachments(order.attachments, settings.tools.attachments)
    if isinstance(given, str):
        return SpawnRefusal("error", given)
    limit = settings.subagents[key.agent].timeout if order.timeout is None else order.timeout
    child = SubagentRecord(
        ident,
        order.caller,
        str(key),
        order.task,
        asker=strip_content(order.asker),
        made=now,
        state="new",
        text=order.task,
        call=order.call,
        depth=depth + 1,
        label=order.label[:LABEL],
        model=_named(parts, key.agent, chosen),
        timeout=limit,
        delete=order.delete,
        source=texts.choose_source(order.taint),
    )
    usual = settings.agents[key.agent].permission_mode
    mode = limit_mode(find_mode(settings, caller.agent, parent, order.asker), usual)  # never freer than its parent
    record = msgspec.structs.replace(
        SessionRecord.fresh(key, now, ident),
        **chosen,
        **_family(settings, order, key, depth + 1),
        permissionMode=None if mode == usual else mode,
        folder=parent.folder,
    )
    allow = list(parts.offered(caller, order.asker, parent))
    extra = {**_held_back(parent), "inheritedToolAllow": allow, **({SHARED: True} if order.asker.shared else {})}
    record = msgspec.structs.replace(record, extra=extra)
    return SpawnPlan(
        child, caller, key, record, parent=parent, files=given, fork=order.fork and key.agent == caller.agent
    )


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
    mine = find_subagent_role(depth, get_max_depth(settings, key.agent))
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
        workspace = parts.workspace(birth.key, child.asker, birth.record.folder or "")
        folder = await asyncio.to_thread(write_attachments, workspace, child.id, birth.files)
        names = "\n".join(f"- {os.path.relpath(folder, workspace)}/{name}" for name in birth.files)
        text = f"{child.task}\n\nFiles for this task, in your workspace:\n{names}"
        child = msgspec.structs.replace(child, folder=folder, text=text)
    if birth.fork:
        path = birth.parent.path(birth.caller.agent)
        transcript = await parts.transcripts.load(path, parts.settings.agents[birth.caller.agent].workspace)
        if transcript.size <= FORK:
            record = msgspec.structs.replace(birth.record, forkedFromParent=True)
            entry, now = _before(transcript, child.call), parts.clock.now()
            await lifecycle.create_branch(
                parts.settings.home, parts.store, transcript, record, key=birth.key, entry=entry, now=now
            )
            return child, note
        note = "the conversation is too long to be copied; the sub-agent knows only its task"
    await parts.store.save_session(birth.record.row(birth.key), expect=None)
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
