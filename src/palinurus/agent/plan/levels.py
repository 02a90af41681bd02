"""What a message asks of its own run, and how much of it people see: this message's directives and options, then the
session, then the agent's defaults. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from palinurus.config.sections.approvals import AgentExecRules
from palinurus.config.settings import AgentSettings, Settings
from palinurus.core.levels import spellings
from palinurus.core.levels.resolve import LevelRequest
from palinurus.core.levels.thinking import check_level, find_thinking_profile
from palinurus.core.policy import modes
from palinurus.core.policy.exec import ASK_LEVELS, SECURITY_LEVELS, list_elevation_blocks
from palinurus.core.types.approval import ExecRules, PermissionMode
from palinurus.core.types.inbound import Inbound, InlineDirectives, TurnOptions
from palinurus.core.types.model import ModelFailure, ModelSpec
from palinurus.core.types.outbound import RunVisibility
from palinurus.core.types.tool import Tool, ToolSettings
from palinurus.providers.catalog import Catalog
from palinurus.providers.wire.history import ASKED_CONTROLS, list_missing_controls
from palinurus.sessions.record import SessionRecord

# How the commands of one run are judged: the agent's configured rules, then what the owner set for the session.
#
# A value for `tools/guard`; nothing is decided here. Words of the session that are none of ours are left out: the rules
# without them hold.

HOSTS = ("auto", "sandbox", "gateway", "node")


def apply_exec_rules(base: ToolSettings, found: ExecRules, outside: Mapping[str, str]) -> ToolSettings:
    """`base` with the rules of this run. `outside`: the environment of commands as it is without a cell."""
    # TMPDIR, too: what a command outside puts there, commands inside must not find or plant
    usual = {"TMPDIR": outside.get("TMPDIR", "/tmp")} if "TMPDIR" in base.exec_env else {}
    home = {name: outside[name] for name in ("HOME",) if name in outside}
    return msgspec.structs.replace(base, rules=msgspec.structs.replace(found, env={**home, **usual}))


def resolve_exec_rules(
    settings: Settings, agent: str, session: SessionRecord, inbound: Inbound, inline: InlineDirectives
) -> ExecRules:
    """A directive of the message itself, then the session's, then the config's."""
    own = settings.approvals.get(agent, AgentExecRules())
    extra, found = session.extra, own.exec
    level: Any = spellings.parse_elevated(inline.elevated or session.elevatedLevel or found.elevated or "")
    rules = msgspec.structs.replace(
        found,
        security=_one_of(extra.get("execSecurity"), SECURITY_LEVELS) or found.security,
        ask=_one_of(extra.get("execAsk"), ASK_LEVELS) or found.ask,
        host=_one_of(extra.get("execHost"), HOSTS) or found.host,
        node=str(extra.get("execNode") or "") or found.node,
        elevated=level,
        gates=list_elevation_blocks(inbound, enabled=own.elevated, allow_from=own.allow_from),
    )
    return modes.apply_mode(rules, find_mode(settings, agent, session, inbound))


def find_mode(settings: Settings, agent: str, session: SessionRecord, inbound: Inbound) -> PermissionMode:
    """The permission mode of a turn."""
    usual = settings.agents[agent].permission_mode
    return modes.resolve_mode(inbound.options.permission_mode, session.permissionMode, usual, inbound)


def _one_of(word: object, known: tuple[Any, ...]) -> Any:
    return word if word in known else None


def read_show(agent: AgentSettings) -> RunVisibility:
    """What the configuration says."""
    return RunVisibility(agent.verbose_default, agent.reasoning_default, False, agent.progress_detail)


def resolve_show(inline: InlineDirectives, record: SessionRecord, base: RunVisibility) -> RunVisibility:
    """The levels in force. A word nobody knows counts as not said."""
    return RunVisibility(
        _first(("off", "on", "full"), base.verbose, inline.verbose, record.verboseLevel),
        _first(("off", "on", "stream"), base.reasoning, inline.reasoning, record.reasoningLevel),
        _first(("off", "on"), "off", inline.trace, spellings.parse_trace(record.traceLevel)) == "on",
        base.detail,
        answer=base.answer,
        send=record.sendPolicy,
        speech=record.ttsAuto,
    )


def drop_overtaken(inline: InlineDirectives, before: SessionRecord, now: SessionRecord) -> InlineDirectives:
    """Without what was switched for the session since the message came: the later word counts."""
    names = (n for n in ("verbose", "reasoning", "trace") if getattr(before, f"{n}Level") != getattr(now, f"{n}Level"))
    return msgspec.structs.replace(inline, **dict.fromkeys(names, ""))


def set_posting(
    show: RunVisibility, agent: AgentSettings, inbound: Inbound, tools: Mapping[str, Tool]
) -> RunVisibility:
    """With whether the model's text is posted: not where visibleReplies wants the message tool, and there is one. What
    the program itself has asked for (jobs, heartbeats) always is."""
    through = inbound.kind in agent.prompt.tool_only and inbound.push and not inbound.system and "message" in tools
    return msgspec.structs.replace(show, answer=not through)


def _first(words: tuple[str, ...], fallback: Any, *asked: Any) -> Any:
    return next((word for word in asked if word in words), fallback)


def apply_options(inbound: Inbound, inline: InlineDirectives) -> InlineDirectives:
    """The directives, with what the options of the message ask for where no directive does."""
    options = inbound.options
    return msgspec.structs.replace(
        inline,
        model=inline.model or options.model,
        thinking=inline.thinking or options.thinking,
        fast=inline.fast or options.fast,
    )


def ask_level(agent: AgentSettings, model: ModelSpec, session: str | None = None, inline: str = "") -> LevelRequest:
    """What each layer says of how much this model is to think."""
    config = agent.thinking_default, model.params.get("thinking")
    return LevelRequest(inline, session, *config, defaults=agent.thinking_shared)


def read_sampling(options: TurnOptions) -> dict[str, Any]:
    """How answers are drawn, as far as the message says."""
    known = (*ASKED_CONTROLS, "tool_choice")
    return {name: value for name in known if (value := getattr(options, name)) not in (None, ())}


def check_options(
    model: ModelSpec | ModelFailure, inbound: Inbound, inline: InlineDirectives, catalog: Catalog
) -> ModelSpec | ModelFailure:
    """The model, or what the message asks of it that it has not: a way to be told, a level that a person typed or a
    client insists on. One that stands in a configured prompt is fitted."""
    if isinstance(model, ModelFailure):
        return model
    options = inbound.options
    missing = list_missing_controls(model, read_sampling(options))
    if missing:
        return ModelFailure("config", f"{model.ref} cannot be asked for {', '.join(missing)}", 400)
    typed = "" if inbound.system else inline.thinking
    insisted = typed or (options.thinking if options.strict and not inline.thinking else "")
    if not insisted:
        return model
    offered = find_thinking_profile(model, catalog.rules(model.ref.provider))
    why = check_level(insisted, model, offered)[1]
    return ModelFailure("config", why) if why else model


def find_asked_model(
    catalog: Catalog, agent: AgentSettings, asked: str, session: SessionRecord
) -> ModelSpec | ModelFailure:
    """The one that this message or a plugin asks for, then the session's, then the agent's."""
    chosen = session.modelOverride or ""
    if chosen and session.providerOverride:
        chosen = f"{session.providerOverride}/{chosen}"
    return catalog.find(asked or chosen, agent) if asked or chosen else catalog.default(agent)


def name_model_chooser(asked: str, wanted: str, session: SessionRecord, agent: AgentSettings) -> str:
    """Who chose the model, in the order in which they are heard."""
    if asked:
        return f"asked for with the message ({asked})"
    if wanted:
        return f"a plugin's hook asked for {wanted}"
    if session.modelOverride:
        by = "an automatic change" if session.modelOverrideSource == "auto" else "/model"
        return f"the session's, set by {by} ({session.modelOverride})"
    return f"the model of agent {agent.id}"
