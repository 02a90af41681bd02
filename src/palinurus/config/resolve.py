"""`Config` -> `Settings`: agents overlaid, and what several sections say together.

Also what one section cannot know: two agents with one id, a token that is another's. Findings go to the place handed
in; with a fatal one among them the result is not to be used.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

import msgspec

from palinurus.config.declare import fill_section
from palinurus.config.findings import ConfigPlace
from palinurus.config.forms import (
    Free,
    ModelSpec,
    list_models,
    merge_deep,
    merge_raw,
    read_form,
    reveal_below,
    settle_names,
)
from palinurus.config.keypath import get_at
from palinurus.config.schema import DEFAULTS_WITHOUT, Config
from palinurus.config.secrets import Secret, wrap_secrets
from palinurus.config.sections.agents import AgentLayers, AgentSettings, add_prompt, fill_agent
from palinurus.config.sections.approvals import resolve_approvals
from palinurus.config.sections.audio import (
    AudioSettings,
    MediaSection,
    read_older_audio,
    resolve_image_generation,
    resolve_speech,
    resolve_talk,
)
from palinurus.config.sections.bindings import resolve_bindings
from palinurus.config.sections.channels import AccountSettings, resolve_accounts
from palinurus.config.sections.context import (
    CompactionSettings,
    ContextSettings,
    PruningSection,
    SubagentSettings,
    TurnSection,
)
from palinurus.config.sections.delivery import resolve_delivery
from palinurus.config.sections.people import resolve_people
from palinurus.config.sections.policy import ToolPolicyReader
from palinurus.config.sections.runtimes import CODEX, RuntimeSettings, resolve_runtimes
from palinurus.config.sections.sandbox import resolve_sandbox
from palinurus.config.sections.schedule import HeartbeatSettings, resolve_heartbeats, resolve_visibility
from palinurus.config.sections.session import SessionSettings
from palinurus.config.sections.tools import EXEC_NAMES, AgentToolsSection, ToolsSection, ToolsSettings
from palinurus.config.sections.web import PdfSettings, WebSettings
from palinurus.config.sections.webhooks import WebhookSettings
from palinurus.config.settings import LaneSettings, ReachSettings, Settings

_RESULT = "toolResultMaxChars"
PHONE = "whatsapp"
PICTURES = "imageGenerationModel"


def resolve_settings(config: Config, here: ConfigPlace, version: str) -> Settings:
    """The settings; what is wrong is noted at `here`."""
    layers, default = config.agents.find_agents(here)
    agents = {name: _agent(name, one, default, config, here=here) for name, one in layers.items()}
    shared = config.agents.defaults
    tools = {name: _agent_tools(one, here) for name, one in layers.items()}
    config.budgets.check_agents(agents, here)
    bindings, astray = resolve_bindings(config.bindings, config.channels, agents, here)
    channels, usual = _channels(config, astray, here)
    media = fill_section(MediaSection, config.tools.media, here.below("tools", "media"))
    return Settings(
        home=here.home,
        agents=agents,
        default_agent=default,
        providers=config.models.providers,
        only_listed=config.models.mode == "replace",
        pricing=config.models.pricing,
        tools=config.tools.make_settings(here.below("tools")),
        gateway=msgspec.structs.replace(config.gateway, json_logs=config.logging.json_lines, look=config.ui),
        lanes=_lanes(config),
        queue=config.messages.queue,
        session=_session(config),
        bindings=bindings,
        auth=config.auth,
        budgets=config.budgets,
        skills=config.skills,
        web=_web(config, here),
        browser=config.browser,
        canvas=config.canvas,
        node_host=config.node_host,
        audio=_audio(media, config, here),
        talk=resolve_talk(config.written, here.below("talk")),
        image_models=list_models(read_form(ModelSpec, shared.get("imageModel"), here)),
        vision=media.image,
        pdf=_pdf(shared, here),
        context=_context(config, layers),
        policy=ToolPolicyReader(config, layers, tools, here).rules(),
        reach=_reach(config, layers),
        messaging=config.tools.message,
        subagents={name: fill_section(SubagentSettings, one.merge("subagents"), here) for name, one in layers.items()},
        compaction=fill_section(CompactionSettings, shared.get("compaction") or {}, here),
        heartbeats=_heartbeats(config, layers, default, here),
        cron=msgspec.structs.replace(config.cron, timezone=agents[default].user_timezone),
        webhooks=_webhooks(config, here),
        mcp=config.mcp,
        store=config.store,
        diagnostics=config.diagnostics,
        runtimes=_runtimes(config, layers, here),
        plugins=config.plugins,
        scripts=config.hooks.scripts,
        channels=channels,
        accounts=_accounts(channels, usual, config, here),
        commands=config.commands,
        people=resolve_people(config.written, layers, here),
        delivery=resolve_delivery(layers, shared, config.section("session"), config.messages),
        approvals=resolve_approvals(config.tools, tools, shared.get("elevatedDefault"), here.home),
        **{name: getattr(config, name) for name in ("logging", "record")},
        env=_env(config.env),
        version=version,
    )


def _agent_tools(layers: AgentLayers, here: ConfigPlace) -> AgentToolsSection:
    return fill_section(AgentToolsSection, layers.own.get("tools") or {}, here.below(*layers.path, "tools"))


def _runtimes(config: Config, layers: Mapping[str, AgentLayers], here: ConfigPlace) -> RuntimeSettings:
    codex = config.plugins.entries.get(CODEX)
    told, providers = codex.config if codex else {}, config.models.providers
    return resolve_runtimes(layers, config.agents.defaults, told, providers, acp=config.acp, here=here)


def _webhooks(config: Config, here: ConfigPlace) -> WebhookSettings:
    hooks = config.hooks
    if hooks.token and hooks.token == config.gateway.token:
        here.bad("hooks.token", "is the gateway's own token", "webhooks need another one; until then there are none")
        return WebhookSettings(scripts=hooks.scripts)
    return hooks


def _channels(config: Config, astray: Container[str], here: ConfigPlace) -> tuple[dict[str, Free], Free]:
    """The sections of channels that are on, with their secrets (not those whose messages would go `astray`); and what
    goes below each of them."""
    off = () if config.web.enabled else (PHONE,)
    on = {name: body for name, body in config.channels.items() if body.get("enabled") is not False and name not in off}
    told = {name: reveal_below(body, here.below("channels", name)) for name, body in on.items()}
    wrapped = {name: wrap_secrets(body, ("channels", name)) for name, body in told.items()}
    for key in sorted(DEFAULTS_WITHOUT & set(config.channels.get("defaults", {}))):
        here.below("channels", "defaults").odd(key, "says nothing here", "write it in the section of a channel")
    limit, most = config.messages.group_chat.history_limit, config.agents.defaults.get("mediaMaxMb")
    usual = merge_raw(wrapped.pop("defaults", {}), {"historyLimit": limit, "mediaMaxMb": most})
    wrapped = {name: body for name, body in wrapped.items() if name.lower() not in astray}
    return wrapped, {**usual, "native": config.commands.native is not False}


def _accounts(
    channels: Mapping[str, Free], usual: Free, config: Config, here: ConfigPlace
) -> dict[str, dict[str, AccountSettings]]:
    made = resolve_accounts(channels, usual, config.access_groups, here)
    again = config.web.reconnect
    for name, own in made.get(PHONE, {}).items():
        made[PHONE][name] = msgspec.structs.replace(own, reconnect=again)
    return made


def _agent(name: str, layers: AgentLayers, default: str, config: Config, here: ConfigPlace) -> AgentSettings:
    made = add_prompt(fill_agent(name, layers, default, here), layers, config.written, _friendly(config))
    sandbox = resolve_sandbox(layers.own.get("sandbox"), layers.shared.get("sandbox"), here)
    own, shared = layers.own, layers.shared
    return msgspec.structs.replace(
        made,
        sandbox=sandbox,
        tools=_tools(own.get("tools"), config),
        speech=resolve_speech(own, shared, config.written, here.below("tts")),
        pictures=resolve_image_generation(own.get(PICTURES), shared.get(PICTURES), here),
    )


def _tools(own: Free | None, config: Config) -> ToolsSettings:
    """Limits of the agent's tools: its own words over everybody's. What is odd about them is told where they stand."""
    nowhere = ConfigPlace("", {}, [])
    words = {name: one for name, one in (own or {}).items() if name in ("exec", "fs", "loopDetection")}
    named = ({**one, "exec": settle_names(one.get("exec"), EXEC_NAMES)} for one in (words, config.section("tools")))
    return fill_section(ToolsSection, merge_deep(*named), nowhere).make_settings(nowhere)


def _friendly(config: Config) -> bool:
    """Two spellings: promptOverlays.gpt5.personality, and the OpenAI plugin's older one."""
    plugin = config.plugins.entries.get("openai")
    overlay = get_at(config.agents.defaults, ("promptOverlays", "gpt5", "personality"))
    word = overlay if overlay is not None else plugin.config.get("personality") if plugin else None
    return word is None or word not in ("off", False)


def _env(section: Free) -> dict[str, Secret]:
    declared = section.get("vars")
    found = {**section, **(declared if isinstance(declared, dict) else {})}
    return {key: Secret(value) for key, value in found.items() if isinstance(value, str)}


def _web(config: Config, place: ConfigPlace) -> WebSettings:
    declared = {key: value for key, value in config.env.items() if isinstance(value, str)}
    here = msgspec.structs.replace(place.below("tools", "web"), environ={**declared, **place.environ})
    web = fill_section(WebSettings, config.tools.web, here)
    search: Any = config.tools.web.get("search")
    plugins = {name: {"config": entry.config} for name, entry in config.plugins.entries.items()}
    told = search if isinstance(search, dict) else {}
    return msgspec.structs.replace(web, search=web.search.choose_engine(told, plugins, here.below("search")))


def _audio(media: MediaSection, config: Config, here: ConfigPlace) -> AudioSettings:
    """With the older audio.transcription, and media.ttlHours: how long files that came in are kept."""
    written: Any = config.tools.media.get("audio")
    told = written if isinstance(written, dict) else {}
    made = msgspec.structs.replace(media.audio, together=media.concurrency)
    hours = config.section("media").get("ttlHours")
    if isinstance(hours, int | float) and not isinstance(hours, bool) and hours > 0:
        made = msgspec.structs.replace(made, keep=hours / 24)
    if told.get("enabled") is False or told.get("models"):
        return made
    return msgspec.structs.replace(made, ways=(*made.ways, *read_older_audio(config.section("audio"), here)))


def _pdf(shared: Free, here: ConfigPlace) -> PdfSettings:
    base, size = PdfSettings(), shared.get("pdfMaxBytesMb")
    models = list_models(read_form(ModelSpec, shared.get("pdfModel"), here))
    return PdfSettings(shared.get("pdfMaxPages") or base.pages, int(size * (1 << 20)) if size else base.size, models)


def _context(config: Config, agents: Mapping[str, AgentLayers]) -> ContextSettings:
    shared, nowhere = config.agents.defaults, ConfigPlace("", {}, [])
    sizes = {name: (one.own.get("contextLimits") or {}).get(_RESULT) for name, one in agents.items()}
    sizes[""] = (shared.get("contextLimits") or {}).get(_RESULT)
    usual = config.channels.get("defaults")
    turns = {name: merge_raw(body, usual) for name, body in config.channels.items() if name != "defaults"}
    return ContextSettings(
        pruning=fill_section(PruningSection, shared.get("contextPruning") or {}, nowhere).make_rules(),
        turns={name.lower(): fill_section(TurnSection, body, nowhere).make_limits() for name, body in turns.items()},
        result_chars={key: size for key, size in sizes.items() if type(size) is int and size > 0},
    )


def _lanes(config: Config) -> LaneSettings:
    base, shared = LaneSettings(), config.agents.defaults
    return LaneSettings(
        main=shared.get("maxConcurrent") or base.main,
        subagent=(shared.get("subagents") or {}).get("maxConcurrent") or base.subagent,
        cron=config.cron.max_concurrent_runs or base.cron,
        queue_cap=get_at(config.written, ("messages", "queue", "cap")) or base.queue_cap,
    )


def _session(config: Config) -> SessionSettings:
    upkeep = msgspec.structs.replace(config.session.upkeep, cron_after=config.cron.session_retention)
    return msgspec.structs.replace(config.session, upkeep=upkeep)


def _reach(config: Config, agents: Mapping[str, AgentLayers]) -> ReachSettings:
    allowed = {name: one.merge("subagents").get("allowAgents") or () for name, one in agents.items()}
    return ReachSettings(
        config.tools.visibility,
        config.tools.across,
        config.tools.across_allow,
        {name: tuple(word.strip().lower() for word in words) for name, words in allowed.items()},
        boxed={name: one.merge("sandbox").get("sessionToolsVisibility") or "spawned" for name, one in agents.items()},
    )


def _heartbeats(
    config: Config, agents: Mapping[str, AgentLayers], default: str, here: ConfigPlace
) -> dict[str, HeartbeatSettings]:
    shared, seen = config.agents.defaults, resolve_visibility(config.channels)
    made = resolve_heartbeats(
        {n: one.own.get("heartbeat") for n, one in agents.items()}, shared.get("heartbeat"), default, here
    )
    zone = (shared.get("userTimezone") or "").strip()
    return {name: msgspec.structs.replace(beat.for_user(zone), seen=seen) for name, beat in made.items()}
