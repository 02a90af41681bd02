"""`Config` -> `Settings`: defaults applied, agents overlaid, words turned into addresses and seconds, secrets wrapped.

Also what types cannot say: two agents with one id, a password mode without password. Findings go into the list handed
in; with a fatal one among them the result is not to be used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from palinurus.config import paths
from palinurus.config.declare import fill_section
from palinurus.config.findings import ConfigPlace
from palinurus.config.forms import ModelSpec, choose_model
from palinurus.config.keypath import Path
from palinurus.config.schema import Config
from palinurus.config.schema.agents import AgentDefaults, AgentEntry, AgentModelSection, AgentsSection
from palinurus.config.schema.tools import ExecSection, FsSection, LoopDetectionSection, ToolsSection
from palinurus.config.secrets import wrap_secrets
from palinurus.config.sections import bindings, people, prompts
from palinurus.config.sections.approvals import resolve_approvals
from palinurus.config.sections.audio import AudioSettings, read_older_audio
from palinurus.config.sections.channels import resolve_accounts
from palinurus.config.sections.context import ContextSettings, TurnSection
from palinurus.config.sections.delivery import resolve_delivery
from palinurus.config.sections.gateway import GatewaySettings
from palinurus.config.sections.policy import resolve_policy
from palinurus.config.sections.prompts import add_prompt_settings
from palinurus.config.sections.runtimes import resolve_runtimes
from palinurus.config.sections.sandbox import SandboxContext, resolve_sandbox
from palinurus.config.sections.schedule import (
    HeartbeatSettings,
    UpkeepSettings,
    resolve_heartbeats,
    resolve_visibility,
)
from palinurus.config.sections.subagents import resolve_reach, resolve_subagents
from palinurus.config.sections.tools import confines_patches, resolve_messaging, resolve_processes, resolve_taint
from palinurus.config.sections.web import WebSettings
from palinurus.config.settings import (
    AgentSettings,
    ExecSettings,
    LaneSettings,
    QueueSettings,
    Secret,
    SessionSettings,
    Settings,
    ToolsSettings,
)
from palinurus.core.types.keys import parse_agent_id

UNLIMITED = 2_147_483.0  # seconds; what OpenClaw's timers can hold at most, here for "no limit"
_RESULT = "toolResultMaxChars"
NEVER = 1_000_000  # a count no run reaches

_BOX: Path = ("agents", "defaults", "sandbox")  # also for what an agent's own says: the message names the value


def resolve_settings(config: Config, scene: ConfigPlace, version: str) -> Settings:
    """The settings; what is wrong is noted at `scene`."""
    home, environ, findings, _ = scene
    section = config.agents or AgentsSection()
    (agents, default), written = _agents(section, scene), {key: entry for _, key, entry in _entries(section)}
    agents = prompts.add_workspace_settings(add_prompt_settings(agents, written, config), written, config)
    config.budgets.check_agents(agents, scene)
    _check_webhooks(config, scene)
    written_channels = {k: wrap_secrets(v, ("channels", k)) for k, v in (config.channels or {}).items()}
    usual = written_channels.pop("defaults", {})
    channels = {k: v for k, v in written_channels.items() if v.get("enabled") is not False}
    return Settings(
        delivery=resolve_delivery(config, written),
        home=home,
        agents=agents,
        default_agent=default,
        providers=config.models.providers,
        tools=_tools(config.tools or ToolsSection(), scene),
        gateway=_gateway(config),
        lanes=_lanes(config),
        queue=_queue(config),
        session=_session(config),
        bindings=bindings.resolve_bindings(config, agents, findings),
        auth=config.auth,
        budgets=config.budgets,
        skills=prompts.resolve_skills(config, home, environ, findings),
        web=_web(config, scene),
        audio=_audio(config, scene),
        image_models=_image_models(section.defaults or AgentDefaults()),
        context=_context(config, written),
        policy=resolve_policy(config, agents, findings),
        reach=resolve_reach(config, agents),
        messaging=resolve_messaging(config),
        subagents=resolve_subagents(config, agents),
        compaction=(section.defaults or AgentDefaults()).compaction,
        heartbeats=_heartbeats(config, written, default, scene),
        cron=msgspec.structs.replace(config.cron, timezone=agents[default].user_timezone),
        webhooks=config.hooks,
        mcp=config.mcp,
        runtimes=resolve_runtimes(config, written, agents),
        plugins=config.plugins,
        scripts=config.hooks.scripts,
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


def _agents(section: AgentsSection, scene: ConfigPlace) -> tuple[dict[str, AgentSettings], str]:
    defaults = section.defaults or AgentDefaults()
    entries: dict[str, AgentEntry] = {}
    chosen = ""
    for path, written, entry in _entries(section):
        if (key := parse_agent_id(written)) is None:
            scene.below(*path).bad("", _AGENT_ID, "give it a short name such as 'work'")
        elif key in entries:
            scene.below(*path).bad("", f"there are two agents with the id {key!r}", "rename one")
        else:
            entries[key] = entry
            if entry.default and chosen:
                scene.below(*path[:-1]).odd("default", f"{chosen!r} is the default already", "remove one")
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


def _agent(key: str, entry: AgentEntry, defaults: AgentDefaults, chosen: str, scene: ConfigPlace) -> AgentSettings:
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
    first, second = choose_model(own), choose_model(shared)
    inherited = None if first.primary else second.fallbacks
    fallbacks = first.fallbacks if first.fallbacks is not None else inherited
    return (first.primary or second.primary or "").strip(), tuple(fallbacks or ())


def _params(models: Mapping[str, AgentModelSection], entry: AgentEntry) -> dict[str, dict[str, Any]]:
    """By model. What the agent's own entry says for all its models goes over what is said for one."""
    return {ref: {**body.params, **(entry.params or {})} for ref, body in models.items() if body.params}


def _workspace(key: str, entry: AgentEntry, defaults: AgentDefaults, chosen: str, scene: ConfigPlace) -> str:
    shared = defaults.workspace or ""
    if entry.workspace:
        path = entry.workspace
    elif key == chosen:
        path = shared or paths.locate_workspace(scene.home)
    else:
        path = f"{shared}/{key}" if shared else f"{paths.locate_workspace(scene.home)}-{key}"
    return paths.expand_path(path, scene.environ, scene.home)


# tools, lanes, sessions


def _tools(section: ToolsSection, scene: ConfigPlace) -> ToolsSettings:
    own = section.exec or ExecSection()
    loops = section.loop_detection or LoopDetectionSection()
    base = ToolsSettings()
    warn = loops.warning_threshold or base.loop_warn
    stop = loops.critical_threshold or max(base.loop_stop, warn * 2)
    if stop <= warn:
        name = "criticalThreshold" if loops.critical_threshold else "warningThreshold"
        scene.bad(f"tools.loopDetection.{name}", f"the run would stop (at {stop}) before it was warned (at {warn})")
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


def _gateway(config: Config) -> GatewaySettings:
    """With what other sections say. diagnostics.enabled and .otel.enabled, unless traces are switched off there."""
    told = config.diagnostics or {}
    otel = told.get("otel")
    wanted = isinstance(otel, dict) and otel.get("enabled") is True and otel.get("traces") is not False
    return msgspec.structs.replace(
        config.gateway,
        json_logs=config.logging is not None and config.logging.console_style == "json",
        spans=wanted and told.get("enabled") is not False,
    )


def _check_webhooks(config: Config, scene: ConfigPlace) -> None:
    if config.hooks.token and config.hooks.token == config.gateway.token:
        scene.bad("hooks.token", "is the gateway's own token", "webhooks need another one")


def _web(config: Config, scene: ConfigPlace) -> WebSettings:
    told: Any = (config.tools.web if config.tools else None) or {}
    declared = {key: value for key, value in (config.env or {}).items() if isinstance(value, str)}
    here = scene.below("tools", "web")._replace(environ={**declared, **scene.environ})
    web = fill_section(WebSettings, told, here)
    search = told.get("search") if isinstance(told.get("search"), dict) else {}
    plugins = {name: {"config": entry.config} for name, entry in config.plugins.entries.items()}
    return msgspec.structs.replace(web, search=web.search.choose_engine(search, plugins, here.below("search")))


def _audio(config: Config, scene: ConfigPlace) -> AudioSettings:
    """With the older audio.transcription, and media.ttlHours: how long files that came in are kept."""
    media = (config.tools.media if config.tools else None) or {}
    told: Any = media.get("audio") if isinstance(media.get("audio"), dict) else {}
    made = fill_section(AudioSettings, told, scene.below("tools", "media", "audio"))
    hours = (config.media or {}).get("ttlHours")
    if isinstance(hours, int | float) and not isinstance(hours, bool) and hours > 0:
        made = msgspec.structs.replace(made, keep=hours / 24)
    if told.get("enabled") is False or told.get("models"):
        return made
    return msgspec.structs.replace(made, ways=(*made.ways, *read_older_audio(config.audio, scene)))


def _image_models(defaults: AgentDefaults) -> tuple[str, ...]:
    """agents.defaults.imageModel and its fallbacks, as written."""
    chosen = choose_model(defaults.image_model)
    return tuple(text.strip() for text in (chosen.primary or "", *(chosen.fallbacks or ())) if text.strip())


def _context(config: Config, written: Mapping[str, AgentEntry]) -> ContextSettings:
    defaults = (config.agents.defaults if config.agents else None) or AgentDefaults()
    sizes = {parse_agent_id(key) or "": (entry.context_limits or {}).get(_RESULT) for key, entry in written.items()}
    sizes[""] = (defaults.context_limits or {}).get(_RESULT)
    nowhere = ConfigPlace("", {}, [])
    turns = {name: body for name, body in (config.channels or {}).items() if name != "defaults"}
    return ContextSettings(
        pruning=defaults.context_pruning.make_rules(),
        turns={name.lower(): fill_section(TurnSection, body, nowhere).make_limits() for name, body in turns.items()},
        result_chars={key: size for key, size in sizes.items() if type(size) is int and size > 0},
    )


def _lanes(config: Config) -> LaneSettings:
    defaults = (config.agents.defaults if config.agents else None) or AgentDefaults()
    children = defaults.subagents
    queue = config.messages.queue if config.messages else None
    base = LaneSettings()
    return LaneSettings(
        main=defaults.max_concurrent or base.main,
        subagent=(children.max_concurrent if children else None) or base.subagent,
        cron=config.cron.max_concurrent_runs or base.cron,
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
    upkeep = section.maintenance if section else UpkeepSettings()
    base = SessionSettings(upkeep=msgspec.structs.replace(upkeep, cron_after=config.cron.session_retention))
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
        upkeep=base.upkeep,
    )


def _set(body: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in body.items() if value is not None}


def _heartbeats(
    config: Config, written: Mapping[str, AgentEntry], default: str, scene: ConfigPlace
) -> dict[str, HeartbeatSettings]:
    own = {key: entry.heartbeat for name, entry in written.items() if (key := parse_agent_id(name))}
    defaults = (config.agents.defaults if config.agents else None) or AgentDefaults()
    zone, seen = (defaults.user_timezone or "").strip(), resolve_visibility(config.channels or {})
    made = resolve_heartbeats(own, defaults.heartbeat, default, scene)
    return {key: msgspec.structs.replace(beat.for_user(zone), seen=seen) for key, beat in made.items()}
