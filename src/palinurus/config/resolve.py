"""`Config` -> `Settings`: defaults applied, agents overlaid, words turned into addresses and seconds, secrets wrapped.

Also what types cannot say: two agents with one id, a password mode without password. Findings go into the list handed
in; with a fatal one among them the result is not to be used.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from palinurus.config import paths
from palinurus.config.expand import resolve_secret
from palinurus.config.findings import ConfigFinding
from palinurus.config.keypath import Path
from palinurus.config.schema import Config
from palinurus.config.schema.agents import AgentDefaults, AgentEntry, AgentModelSection, AgentsSection, HeartbeatSection
from palinurus.config.schema.models import ModelSection, ProviderSection
from palinurus.config.schema.tools import ExecSection, FsSection, LoopDetectionSection, ToolsSection
from palinurus.config.schema.words import ModelChoiceSection, ModelSpec
from palinurus.config.secrets import wrap_secrets
from palinurus.config.sections import bindings, credentials, gateway, maintenance, mcp, people, plugins, prompts, web
from palinurus.config.sections.approvals import resolve_approvals
from palinurus.config.sections.audio import resolve_audio
from palinurus.config.sections.channels import resolve_accounts
from palinurus.config.sections.context import resolve_compaction, resolve_context
from palinurus.config.sections.delivery import resolve_delivery
from palinurus.config.sections.policy import resolve_policy
from palinurus.config.sections.prompts import add_prompt_settings
from palinurus.config.sections.runtimes import resolve_runtimes
from palinurus.config.sections.sandbox import SandboxContext, resolve_sandbox
from palinurus.config.sections.schedule import resolve_cron, resolve_heartbeats
from palinurus.config.sections.subagents import resolve_reach, resolve_subagents
from palinurus.config.sections.tools import confines_patches, resolve_messaging, resolve_processes, resolve_taint
from palinurus.config.sections.webhooks import resolve_webhooks
from palinurus.config.settings import (
    AgentSettings,
    ExecSettings,
    LaneSettings,
    ModelSettings,
    ProviderSettings,
    QueueSettings,
    Secret,
    SessionSettings,
    Settings,
    ToolsSettings,
)
from palinurus.core import durations
from palinurus.core.types.keys import parse_agent_id

UNLIMITED = 2_147_483.0  # seconds; what OpenClaw's timers can hold at most, here for "no limit"
NEVER = 1_000_000  # a count no run reaches

_BOX: Path = ("agents", "defaults", "sandbox")  # also for what an agent's own says: the message names the value
_PROVIDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_URL = re.compile(r"https?://[^\s/]", re.IGNORECASE)
_CLOCK = re.compile(r"(?:[01]\d|2[0-3]):[0-5]\d|24:00", re.ASCII)


class ResolveContext(NamedTuple):
    """What every part of the resolution needs."""

    home: str
    environ: Mapping[str, str]
    findings: list[ConfigFinding]

    def bad(self, path: Path, message: str, hint: str = "", *, fatal: bool = True) -> None:
        self.findings.append(ConfigFinding(path, message, hint, fatal))


def resolve_settings(
    config: Config, home: str, environ: Mapping[str, str], version: str, findings: list[ConfigFinding]
) -> Settings:
    """The settings; what is wrong is added to `findings`."""
    scene, section = ResolveContext(home, environ, findings), config.agents or AgentsSection()
    (agents, default), written = _agents(section, scene), {key: entry for _, key, entry in _entries(section)}
    agents = prompts.add_workspace_settings(add_prompt_settings(agents, written, config), written, config)
    _durations(config, scene)
    providers = (config.models.providers if config.models else None) or {}
    written_channels = {k: wrap_secrets(v, ("channels", k)) for k, v in (config.channels or {}).items()}
    usual = written_channels.pop("defaults", {})
    channels = {k: v for k, v in written_channels.items() if v.get("enabled") is not False}
    return Settings(
        delivery=resolve_delivery(config, written),
        home=home,
        agents=agents,
        default_agent=default,
        providers={key: _provider(key, body, scene) for key, body in providers.items()},
        tools=_tools(config.tools or ToolsSection(), scene),
        gateway=gateway.resolve_gateway(config, environ, findings),
        lanes=_lanes(config),
        queue=_queue(config),
        session=msgspec.structs.replace(_session(config), upkeep=maintenance.resolve_upkeep(config, findings)),
        bindings=bindings.resolve_bindings(config, agents, findings),
        auth=credentials.resolve_auth(config, environ, findings),
        budgets=credentials.resolve_budgets(config, agents, findings),
        skills=prompts.resolve_skills(config, home, environ, findings),
        web=web.resolve_web(config, environ, findings),
        audio=resolve_audio(config, findings),
        image_models=web.resolve_image_models(config),
        context=resolve_context(config),
        policy=resolve_policy(config, agents, findings),
        reach=resolve_reach(config, agents),
        messaging=resolve_messaging(config),
        subagents=resolve_subagents(config, agents),
        compaction=resolve_compaction(config),
        heartbeats=resolve_heartbeats(config, written, default),
        cron=resolve_cron(config, agents[default].user_timezone),
        webhooks=resolve_webhooks(config, environ, findings),
        mcp=mcp.resolve_mcp(config, home, environ, findings),
        runtimes=resolve_runtimes(config, written, agents),
        plugins=plugins.resolve_plugins(config, home, environ, findings),
        scripts=plugins.resolve_scripts(config, home, environ),
        channels=channels,
        accounts=resolve_accounts(config, channels, usual, findings),
        people=people.resolve_people(config, written, agents, findings),
        approvals=resolve_approvals(config, written, agents, home),
        logging=_plain(config.logging),
        env=_env(config.env or {}),
        version=version,
    )


def _plain(section: Any) -> dict[str, Any]:
    """A section as a dict of what is set."""
    return {key: value for key, value in msgspec.to_builtins(section or {}).items() if value is not None}


def _env(section: dict[str, Any]) -> dict[str, Secret]:
    declared = section.get("vars")
    found = {**section, **(declared if isinstance(declared, dict) else {})}
    return {key: Secret(value) for key, value in found.items() if isinstance(value, str)}


# agents

_AGENT_ID = "an agent id is letters, digits, - and _, 64 at most"


def _agents(section: AgentsSection, scene: ResolveContext) -> tuple[dict[str, AgentSettings], str]:
    defaults = section.defaults or AgentDefaults()
    entries: dict[str, AgentEntry] = {}
    chosen = ""
    for path, written, entry in _entries(section):
        if (key := parse_agent_id(written)) is None:
            scene.bad(path, _AGENT_ID, "give it a short name such as 'work'")
        elif key in entries:
            scene.bad(path, f"there are two agents with the id {key!r}", "rename one")
        else:
            entries[key] = entry
            if entry.default and chosen:
                scene.bad((*path[:-1], "default"), f"{chosen!r} is the default already", "remove one", fatal=False)
            elif entry.default:
                chosen = key
    chosen = chosen or next(iter(entries), "main")
    if not entries:
        entries = {"main": AgentEntry()}
    return {key: _agent(key, entry, defaults, chosen, scene) for key, entry in entries.items()}, chosen


def _entries(section: AgentsSection) -> list[tuple[Path, str, AgentEntry]]:
    """Path of the id, id as written, entry: from the list, then from the map."""
    listed = [(("agents", "list", i, "id"), e.id or "", e) for i, e in enumerate(section.listed or [])]
    mapped = [(("agents", "entries", k), k, e) for k, e in (section.entries or {}).items()]
    return [*listed, *mapped]


def _agent(key: str, entry: AgentEntry, defaults: AgentDefaults, chosen: str, scene: ResolveContext) -> AgentSettings:
    models = {**(defaults.models or {}), **(entry.models or {})}
    model, fallbacks = _choice(entry.model, defaults.model)
    limit = defaults.timeout_seconds
    base = AgentSettings(key, key, "")
    return AgentSettings(
        id=key,
        name=entry.name or (entry.identity.name if entry.identity and entry.identity.name else key),
        workspace=_workspace(key, entry, defaults, chosen, scene),
        model=model,
        fallbacks=fallbacks,
        aliases={body.alias.strip(): ref for ref, body in models.items() if body.alias and body.alias.strip()},
        params={**(defaults.params or {}), **(entry.params or {})},
        model_params=_params(models, entry),
        thinking_default=entry.thinking_default,
        thinking_shared=defaults.thinking_default,
        fast_default=_first(entry.fast_mode_default, defaults.fast_mode_default),
        verbose_default=entry.verbose_default or defaults.verbose_default or "off",
        reasoning_default=entry.reasoning_default or defaults.reasoning_default or "off",
        progress_detail=entry.tool_progress_detail or defaults.tool_progress_detail or "explain",
        timeout=base.timeout if limit is None else float(limit) or UNLIMITED,
        max_turns=base.max_turns,
        context_tokens=entry.context_tokens or defaults.context_tokens,
        user_timezone=(defaults.user_timezone or "").strip(),
        identity=_plain(entry.identity),
        skip_bootstrap=bool(defaults.skip_bootstrap),
        sandbox=resolve_sandbox(
            entry.sandbox, defaults.sandbox, SandboxContext(_BOX, scene.home, scene.environ, scene.findings)
        ),
    )


def _first(*options: Any) -> Any:
    return next((option for option in options if option is not None), None)


def _choice(own: ModelSpec | None, shared: ModelSpec | None) -> tuple[str, tuple[str, ...]]:
    """Primary and fallbacks. A model of the agent's own is strict: it has only the fallbacks it names itself."""
    first = ModelChoiceSection(own) if isinstance(own, str) else own or ModelChoiceSection()
    second = ModelChoiceSection(shared) if isinstance(shared, str) else shared or ModelChoiceSection()
    inherited = None if first.primary else second.fallbacks
    fallbacks = first.fallbacks if first.fallbacks is not None else inherited
    return (first.primary or second.primary or "").strip(), tuple(fallbacks or ())


def _params(models: Mapping[str, AgentModelSection], entry: AgentEntry) -> dict[str, dict[str, Any]]:
    """By model. What the agent's own entry says for all its models goes over what is said for one."""
    return {ref: {**body.params, **(entry.params or {})} for ref, body in models.items() if body.params}


def _workspace(key: str, entry: AgentEntry, defaults: AgentDefaults, chosen: str, scene: ResolveContext) -> str:
    shared = defaults.workspace or ""
    if entry.workspace:
        path = entry.workspace
    elif key == chosen:
        path = shared or paths.locate_workspace(scene.home)
    else:
        path = f"{shared}/{key}" if shared else f"{paths.locate_workspace(scene.home)}-{key}"
    return paths.expand_path(path, scene.environ, scene.home)


# models


def _provider(key: str, body: ProviderSection, scene: ResolveContext) -> ProviderSettings:
    path: Path = ("models", "providers", key)
    if not _PROVIDER.fullmatch(key):
        scene.bad(path, "a provider id is letters, digits, '.', '-' and '_', 64 at most")
    base = (body.base_url or "").strip().rstrip("/")
    if base and not _URL.match(base):
        scene.bad((*path, "baseUrl"), "must start with http:// or https://", "such as http://127.0.0.1:11434/v1")
    headers = {
        name: resolve_secret(value, (*path, "headers", name), scene.environ, scene.findings, fatal=False).reveal()
        for name, value in (body.headers or {}).items()
    }
    names: set[str] = set()
    for index, model in enumerate(body.models or []):
        if model.id in names:
            scene.bad((*path, "models", index, "id"), "this model is listed twice", fatal=False)
        names.add(model.id)
    return ProviderSettings(
        id=key,
        base_url=base,
        api=body.api or "",
        api_key=resolve_secret(body.api_key, (*path, "apiKey"), scene.environ, scene.findings, fatal=False),
        headers=headers,
        models=tuple(_model(model, body) for model in body.models or ()),
        timeout=float(body.timeout_seconds) if body.timeout_seconds else None,
        auth_header=body.auth_header,
        params=body.params or {},
    )


def _model(body: ModelSection, provider: ProviderSection) -> ModelSettings:
    cost = {key: float(value) for key, value in _plain(body.cost).items() if key != "tieredPricing"}
    return ModelSettings(
        id=body.id,
        name=body.name or "",
        api=body.api or "",
        reasoning=body.reasoning,
        input=None if body.input is None else tuple(body.input),
        cost=cost if body.cost is not None else None,
        context_window=body.context_window or provider.context_window,
        max_tokens=body.max_tokens or provider.max_tokens,
        headers=body.headers or {},
        compat=body.compat or {},
        params=body.params or {},
    )


# tools, lanes, sessions


def _tools(section: ToolsSection, scene: ResolveContext) -> ToolsSettings:
    own = section.exec or ExecSection()
    loops = section.loop_detection or LoopDetectionSection()
    base = ToolsSettings()
    warn = loops.warning_threshold or base.loop_warn
    stop = loops.critical_threshold or max(base.loop_stop, warn * 2)
    if stop <= warn:
        path = "criticalThreshold" if loops.critical_threshold else "warningThreshold"
        scene.bad(("tools", "loopDetection", path), f"the run would stop (at {stop}) before it was warned (at {warn})")
    limit = _first(own.timeout_sec, own.timeout_seconds)
    return ToolsSettings(
        workspace_only=bool((section.fs or FsSection()).workspace_only),
        exec=ExecSettings(
            base.exec.timeout if limit is None else float(limit) or UNLIMITED,
            own.env or {},
            resolve_processes(own),
            confines_patches(own),
        ),
        loop_warn=NEVER if loops.enabled is False else warn,
        loop_stop=NEVER if loops.enabled is False else stop,
        taint=resolve_taint(section, scene.findings),
    )


def _lanes(config: Config) -> LaneSettings:
    defaults = (config.agents.defaults if config.agents else None) or AgentDefaults()
    children = defaults.subagents
    queue = config.messages.queue if config.messages else None
    base = LaneSettings()
    return LaneSettings(
        main=defaults.max_concurrent or base.main,
        subagent=(children.max_concurrent if children else None) or base.subagent,
        cron=(config.cron.max_concurrent_runs if config.cron else None) or base.cron,
        queue_cap=(queue.cap if queue else None) or base.queue_cap,
    )


def _queue(config: Config) -> QueueSettings:
    section = config.messages.queue if config.messages else None
    base = QueueSettings()
    if section is None:
        return base
    return QueueSettings(
        mode=section.mode or base.mode,
        debounce=base.debounce if section.debounce_ms is None else section.debounce_ms / 1000,
        cap=section.cap or base.cap,
        drop=section.drop or base.drop,
        by_channel=dict(section.by_channel or {}),
        debounce_by_channel={name: ms / 1000 for name, ms in (section.debounce_ms_by_channel or {}).items()},
    )


def _session(config: Config) -> SessionSettings:
    section = config.session
    base = SessionSettings()
    if section is None:
        return base
    reset = _plain(section.reset)
    if not reset and section.idle_minutes:
        reset = {"mode": "idle", "idleMinutes": section.idle_minutes}  # the old spelling
    by_type = {key: _set(body) for key, body in _plain(section.reset_by_type).items()}
    if "dm" in by_type:
        by_type.setdefault("direct", by_type.pop("dm"))
    return SessionSettings(
        scope=section.scope or base.scope,
        dm_scope=section.dm_scope or base.dm_scope,
        main_key=(section.main_key or "").strip() or base.main_key,
        reset=reset,
        reset_by_type=by_type,
        reset_by_channel={key: _plain(body) for key, body in (section.reset_by_channel or {}).items()},
        identity_links=bindings.map_identity_links(section.identity_links or {}),
    )


def _set(body: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in body.items() if value is not None}


# durations and times of day


def _durations(config: Config, scene: ResolveContext) -> None:
    defaults = (config.agents.defaults if config.agents else None) or AgentDefaults()
    upkeep = config.session.maintenance if config.session else None
    pruning = defaults.context_pruning
    table: list[tuple[Path, str | int | bool | None, str]] = [
        (("agents", "defaults", "contextPruning", "ttl"), pruning.ttl if pruning else None, "m"),
        (("session", "maintenance", "pruneAfter"), upkeep.prune_after if upkeep else None, "d"),
        (("session", "maintenance", "resetArchiveRetention"), upkeep.reset_archive_retention if upkeep else None, "d"),
        (("cron", "sessionRetention"), config.cron.session_retention if config.cron else None, "h"),
    ]
    beats: list[tuple[Path, HeartbeatSection | None]] = [(("agents", "defaults", "heartbeat"), defaults.heartbeat)]
    for path, _, entry in _entries(config.agents or AgentsSection()):
        owner = path[:-1] if path[1] == "list" else path
        beats.append(((*owner, "heartbeat"), entry.heartbeat))
    for path, beat in beats:
        if beat is not None:
            table.append(((*path, "every"), beat.every, "m"))
            _hours(beat, path, scene)
    for path, value, unit in table:
        if value is True or (
            isinstance(value, str | int)
            and not isinstance(value, bool)
            and value != ""
            and durations.parse_duration(value, unit) is None
        ):
            scene.bad(path, "is not a duration", "write it as 500ms, 30s, 15m, 2h or 7d")


def _hours(beat: HeartbeatSection, path: Path, scene: ResolveContext) -> None:
    hours = beat.active_hours
    for name, value in (("start", hours.start), ("end", hours.end)) if hours else ():
        if value and (not _CLOCK.fullmatch(value) or (name == "start" and value == "24:00")):
            scene.bad((*path, "activeHours", name), "is not a time of day", "write it as 08:30 (24 hours)")
