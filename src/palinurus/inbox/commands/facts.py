"""What applies to a session right now: model, thinking level, fast mode, and where each comes from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from palinurus.agent.plan.offer import list_insiders
from palinurus.config.settings import AgentSettings
from palinurus.core.levels import thinking
from palinurus.core.levels.resolve import FastMode, LevelRequest, ThinkingDecision, resolve_fast_mode, resolve_thinking
from palinurus.core.policy.audience import is_shared
from palinurus.core.types.keys import SessionKey
from palinurus.core.types.model import ModelSpec
from palinurus.core.types.vendor import ThinkingProfile, Vendor
from palinurus.inbox.commands.command import CommandCall, CommandContext
from palinurus.providers.catalog import Catalog
from palinurus.sessions.record import SessionRecord


class SessionFacts(NamedTuple):
    """One session as it stands."""

    key: SessionKey
    record: SessionRecord
    agent: AgentSettings
    model: ModelSpec
    vendor: Vendor | None
    offered: ThinkingProfile
    level: ThinkingDecision
    fast: FastMode


def gather_facts(
    desk: CommandContext, key: SessionKey, record: SessionRecord, model: ModelSpec | None = None
) -> SessionFacts:
    """With `model` instead of the session's own, if given."""
    agent = desk.settings.agents[key.agent]
    model = model or find_session_model(desk.catalog, agent, record)
    vendor = desk.catalog.vendor(model.ref.provider)
    asked = LevelRequest(
        None, record.thinkingLevel, agent.thinking_default, model.params.get("thinking"), agent.thinking_shared
    )
    hurry = LevelRequest(None, record.fastMode, agent.fast_default)
    offered = thinking.find_thinking_profile(model, vendor)
    return SessionFacts(
        key,
        record,
        agent,
        model,
        vendor,
        offered,
        resolve_thinking(model, asked, vendor),
        resolve_fast_mode(model, hurry),
    )


def is_shared_call(call: CommandCall) -> bool:
    """Would others than the owner see what comes of the session's next turn?"""
    insiders = list_insiders(call.desk.settings)
    return is_shared(call.inbound, call.key, call.record.extra, (), insiders=insiders)


def find_session_model(catalog: Catalog, agent: AgentSettings, record: SessionRecord) -> ModelSpec:
    """The session's model: what somebody chose for it if that can be found, else the agent's."""
    if record.modelOverride:
        ref = f"{record.providerOverride}/{record.modelOverride}" if record.providerOverride else record.modelOverride
        found = catalog.find(ref, agent)
        if isinstance(found, ModelSpec):
            return found
    return catalog.default(agent)


_FIELDS = frozenset(SessionRecord.__struct_fields__)


def change_record(record: SessionRecord, changes: Mapping[str, Any], now: int) -> SessionRecord:
    """The record with `changes`; None clears. Fields it does not have yet go to `extra`."""
    known = {name: value for name, value in changes.items() if name in _FIELDS}
    extra = {**record.extra, **{name: value for name, value in changes.items() if name not in _FIELDS}}
    extra = {name: value for name, value in extra.items() if value is not None and name not in known}
    return msgspec.structs.replace(record, **known, extra=extra, updatedAt=now, lastInteractionAt=now)


def format_tokens(count: int | None) -> str:
    """12345 -> 12.3k"""
    if count is None:
        return "?"
    return f"{count / 1000:.1f}k".replace(".0k", "k") if count >= 1000 else str(count)
