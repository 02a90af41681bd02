"""What applies to a session right now: model, thinking level, fast mode, and where each comes from; and which model a
person means by a word. Changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from palinurus.agent.plan.levels import ask_level
from palinurus.config.settings import AgentSettings, Settings
from palinurus.core.levels import spellings, thinking
from palinurus.core.levels.resolve import FastMode, LevelRequest, ThinkingDecision, resolve_fast_mode, resolve_thinking
from palinurus.core.levels.thinking import ThinkingRow
from palinurus.core.types.keys import SessionKey
from palinurus.core.types.model import ModelFailure, ModelSpec
from palinurus.core.types.vendor import ThinkingProfile, Vendor
from palinurus.providers.catalog import Catalog
from palinurus.sessions.record import SessionRecord

SHOWN = 60  # models of a list


class FactSources(Protocol):
    """Where facts come from; commands and methods have it."""

    @property
    def settings(self) -> Settings: ...

    @property
    def catalog(self) -> Catalog: ...


class SessionFacts(msgspec.Struct, frozen=True):
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
    program: FactSources, key: SessionKey, record: SessionRecord, model: ModelSpec | None = None
) -> SessionFacts:
    """With `model` instead of the session's own, if given."""
    agent = program.settings.agents[key.agent]
    model = model or find_session_model(program.catalog, agent, record)
    vendor = program.catalog.rules(model.ref.provider)
    hurry = LevelRequest(None, record.fastMode, agent.fast_default)
    offered = thinking.find_thinking_profile(model, vendor)
    return SessionFacts(
        key,
        record,
        agent,
        model,
        vendor=vendor,
        offered=offered,
        level=resolve_thinking(model, ask_level(agent, model, record.thinkingLevel), vendor),
        fast=resolve_fast_mode(model, hurry),
    )


def find_levels(program: FactSources, agent: AgentSettings, model: ModelSpec) -> ThinkingRow:
    """Which thinking levels a model has, and the one it is used with where a session says nothing."""
    vendor = program.catalog.rules(model.ref.provider)
    used = resolve_thinking(model, ask_level(agent, model), vendor).level
    return msgspec.structs.replace(thinking.make_thinking_row(model, vendor), thinkingDefault=used)


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


def diff_records(before: SessionRecord, after: SessionRecord) -> dict[str, Any]:
    """What is different, as a JSON merge patch."""
    return _diff(*(msgspec.json.decode(record.encode(), type=dict[str, Any]) for record in (before, after)))


def _diff(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    patch: dict[str, Any] = {name: None for name in old if name not in new}
    for name, value in new.items():
        was = old.get(name)
        if value != was:
            patch[name] = _diff(was, value) if isinstance(was, dict) and isinstance(value, dict) else value
    return patch


def format_tokens(count: int | None) -> str:
    """12345 -> 12.3k"""
    if count is None:
        return "?"
    return f"{count / 1000:.1f}k".replace(".0k", "k") if count >= 1000 else str(count)


def list_models(catalog: Catalog, agent: AgentSettings, current: str, wanted: str = "") -> str:
    """The numbered list; the numbers are those `/model N` takes."""
    every = list(enumerate(catalog.all(agent), 1))
    found = [(n, m) for n, m in every if wanted in str(m.ref).lower()]
    if not found:
        return f'No model matches "{wanted[:64]}".'
    aliases = {target: f" ({alias})" for alias, target in agent.aliases.items()}
    lines = [
        f"{n}. {m.ref}{aliases.get(str(m.ref), '')}{' *' if str(m.ref) == current else ''}" for n, m in found[:SHOWN]
    ]
    more = [f"… and {len(found) - SHOWN} more: /models TEXT narrows it down."] if len(found) > SHOWN else []
    return "\n".join(["Models (* in use; /model N or /model NAME switches):", *lines, *more])


def find_meant_model(catalog: Catalog, agent: AgentSettings, raw: str) -> ModelSpec | str:
    """The model a person wants: by number, clear word, alias, ref or id. A text says why there is none."""
    if spellings.is_clear_word(raw):
        return catalog.default(agent)
    if raw.isascii() and raw.isdigit():
        every = catalog.all(agent)
        number = int(raw[:6])
        return every[number - 1] if 0 < number <= len(every) else f"There is no model number {raw[:6]}; /models lists."
    found = catalog.find(raw, agent)
    if isinstance(found, ModelFailure):
        said = found.message.partition("; `pal models`")[0]
        return f"{said[:1].upper()}{said[1:]}{'' if said.endswith('?') else '.'} /models lists what there is."
    key = catalog.key(found)
    if isinstance(key, ModelFailure):
        return f"{found.ref} cannot be used: {key.message}."
    return found
