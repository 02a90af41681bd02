"""What a key is, what it is set to, where that comes from, and whether a change of it applies at once.

Tables: which keys need a restart, what a key means, and where in `Settings` its effective value is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from palinurus.config import files, lines
from palinurus.config.check import describe_key, list_keys_below
from palinurus.config.findings import suggest_nearest
from palinurus.config.keypath import Path, get_at, has_at, parse_path, settle_path, show_path
from palinurus.config.load import LoadedConfig
from palinurus.config.secrets import MASK, is_secret, mask_secrets
from palinurus.config.settings import AgentSettings, Secret, Settings
from palinurus.errors import BadRequest, NotFound

# What each key means, one sentence a key, for `pal config explain`. A list item is written `[]`. Data only.

KEY_MEANINGS: dict[str, str] = {
    "agents": "The agents: what they share, and one entry for each.",
    "agents.defaults": "What applies to every agent unless its own entry says otherwise.",
    "agents.defaults.workspace": "The directory the agent works in; tools and context files start here.",
    "agents.defaults.model": "The model to use, as provider/model, an alias, or {primary, fallbacks}.",
    "agents.defaults.model.primary": "The model that is asked first.",
    "agents.defaults.model.fallbacks": "Models to try, in this order, when the first one fails.",
    "agents.defaults.models": "Aliases and parameters, by provider/model.",
    "agents.defaults.thinkingDefault": "How long the model thinks when nothing else was said.",
    "agents.defaults.fastModeDefault": "Whether faster service is asked for: true, false or auto.",
    "agents.defaults.timeoutSeconds": "How long one run may take, in seconds; 0 is no limit.",
    "agents.defaults.contextTokens": "The most tokens of context to use, even if the model could take more.",
    "agents.defaults.userTimezone": "The time zone of the user, such as Europe/Berlin.",
    "agents.defaults.timeFormat": "Clock format shown to the model: auto, 12 or 24.",
    "agents.defaults.skipBootstrap": "Do not create the workspace's starting files.",
    "agents.defaults.maxConcurrent": "How many runs go on at the same time, over all sessions.",
    "agents.defaults.subagents.maxConcurrent": "How many sub-agent runs go on at the same time.",
    "agents.defaults.subagents.maxSpawnDepth": "How deep sub-agents may start sub-agents; 1: they start none.",
    "agents.defaults.subagents.maxChildrenPerAgent": "How many sub-agents one session may have going.",
    "agents.defaults.subagents.allowAgents": "Which other agents sub-agents may be; * is all.",
    "agents.defaults.subagents.model": "The model of sub-agents, if it is not the agent's own.",
    "agents.defaults.subagents.thinking": "Their thinking level, if it is not the agent's own.",
    "agents.defaults.subagents.runTimeoutSeconds": "How long one run of a sub-agent may take; 0: no limit of its own.",
    "agents.defaults.subagents.archiveAfterMinutes": "When a finished sub-agent's session is archived; 0 is never.",
    "agents.defaults.subagents.requireAgentId": "Whoever starts a sub-agent must say which agent it is to be.",
    "agents.defaults.heartbeat.every": "How often the agent looks by itself for something to do; 0m is never.",
    "agents.defaults.heartbeat.watch": "A command; the agent is asked when it prints something else than before.",
    "agents.defaults.sandbox": "What commands and file tools may do; `pal sandbox explain` shows it.",
    "agents.defaults.sandbox.contain": "What holds commands on this machine: auto, landlock, bubblewrap, or off.",
    "agents.defaults.sandbox.read": "Folders besides the workspace that may be read.",
    "agents.defaults.sandbox.write": "Folders besides the workspace that may be written.",
    "agents.defaults.sandbox.connect": "TCP ports commands may connect to: default, any, none, or a list.",
    "agents.defaults.sandbox.unixSockets": "Let commands use Unix sockets, behind which other programs listen.",
    "agents.defaults.sandbox.limits": "What each process may use: files, fileMb, memoryMb, processes, cpuSeconds.",
    "agents.defaults.sandbox.mode": "Which sessions get a sandbox and a workspace of their own: off, non-main, all.",
    "agents.defaults.sandbox.backend": "What that sandbox is made of: docker, landlock or bubblewrap.",
    "agents.defaults.sandbox.scope": "Who shares one: session (nobody), agent, or shared.",
    "agents.defaults.sandbox.workspaceAccess": "What a sandbox sees of the agent's workspace: none, ro or rw.",
    "agents.defaults.sandbox.workspaceRoot": "Where the workspaces of sandboxed sessions are.",
    "agents.list": "One entry for each agent.",
    "agents.list[].id": "The agent's short name: lower-case letters, digits, - and _.",
    "agents.list[].default": "This agent answers what is not routed to another one.",
    "agents.list[].workspace": "The directory of this agent.",
    "agents.list[].model": "This agent's model; it then has only the fallbacks it names itself.",
    "models": "Model providers besides the built-in ones.",
    "models.mode": "merge adds to the built-in providers, replace uses only these.",
    "models.providers": "Providers by id: baseUrl, api, apiKey, models.",
    "auth": "Several keys for one provider, and how long one that failed rests.",
    "auth.profiles": "Keys by name: provider, mode and key (or the same name in auth-profiles.json).",
    "auth.order": "Which profiles a provider uses, in this order.",
    "auth.cooldowns": "How long keys rest after a billing failure, and when failures are forgotten.",
    "budgets": "What may be spent; a soft limit warns once, a hard one stops.",
    "budgets.day": "Everything together, per calendar day.",
    "budgets.session": "One conversation and its sub-agents, until it is reset.",
    "budgets.agent": "Each agent, per calendar day.",
    "budgets.agents": "The same for single agents, by id.",
    "gateway": "The server that clients and channels talk to.",
    "gateway.port": "The TCP port to listen on.",
    "gateway.bind": "Who can reach it: loopback (this machine), lan (the network), auto, custom, or an address.",
    "gateway.customBindHost": "The address to listen on when gateway.bind is custom.",
    "gateway.mode": "local runs the gateway here; remote talks to one elsewhere.",
    "gateway.auth": "How clients prove who they are.",
    "gateway.auth.mode": "token, password, trusted-proxy, or none (only on loopback).",
    "gateway.auth.token": "The token clients send; without one, the gateway makes its own at the first start.",
    "gateway.auth.password": "The password for auth mode password.",
    "gateway.controlUi.allowedOrigins": "Web origins that may connect, such as https://pal.example.org.",
    "gateway.http.endpoints.chatCompletions.enabled": "Serve the OpenAI-compatible POST /v1/chat/completions.",
    "session": "How conversations are told apart and when they start anew.",
    "session.scope": "per-sender keeps people apart, global puts everyone into one session.",
    "session.dmScope": "Which session direct messages go to.",
    "session.mainKey": "The name of the main session.",
    "session.reset": "When a session starts anew: daily at an hour, or after idle minutes.",
    "messages.queue": "What happens to messages that arrive while a run is going on.",
    "messages.queue.mode": "steer into the run, followup after it, collect into one, or interrupt it.",
    "messages.queue.cap": "How many messages may wait in one session.",
    "tools": "Which tools the agents have, and their limits.",
    "tools.profile": "A named set of tools to start from: minimal, coding, messaging or full.",
    "tools.allow": "Only these tools (names or groups such as group:fs); an empty list is none.",
    "tools.alsoAllow": "Tools in addition to the profile.",
    "tools.deny": "Never these tools; goes before every allow.",
    "tools.fs.workspaceOnly": "File tools stay inside the workspace.",
    "tools.exec": "Running commands.",
    "tools.exec.timeoutSec": "How long a command may take, in seconds; 0 is no limit.",
    "tools.exec.env": "Variables that commands get in addition.",
    "tools.exec.backgroundMs": "How long a command is waited for before it goes on in the background.",
    "tools.exec.cleanupMs": "How long a finished background command can still be looked at.",
    "tools.exec.notifyOnExit": "The end of a background command wakes the session that started it.",
    "tools.exec.notifyOnExitEmptySuccess": "… also when it succeeded and printed nothing.",
    "tools.exec.applyPatch.workspaceOnly": "Patches stay inside the workspace, whatever else is open.",
    "tools.message": "Where the message tool may write besides the chat of the turn (docs/channels.md).",
    "tools.taint": "What is asked about after untrusted content was read (docs/security.md).",
    "tools.taint.enabled": "false: nothing is asked for that reason.",
    "tools.taint.allow": "Tools that need no question; exec:network leaves commands their network.",
    "tools.taint.hosts": "Hosts whose pages are fetched unasked, besides well-known documentation.",
    "tools.loopDetection": "What happens when a tool is called again and again with the same arguments.",
    "tools.loopDetection.warningThreshold": "After so many equal calls the model is warned.",
    "tools.loopDetection.criticalThreshold": "After so many equal calls the run ends.",
    "channels": "Where messages come from and go to, by channel (docs/channels.md).",
    "channels.defaults": "What applies to every channel unless its own section says otherwise.",
    "commands.ownerAllowFrom": "Who is the owner on chat channels, as channel:id; all rights.",
    "commands.allowFrom": "Who may give commands, by channel; without it whoever a list names.",
    "memory.allowFrom": "Who besides the owner may have what is in MEMORY.md, USER.md and memory/: telegram:123, or "
    "telegram:group:-100 (docs/security.md).",
    "accessGroups": "Lists of people that have a name; other lists use them as accessGroup:NAME.",
    "broadcast": "Chats whose messages go to several agents, by the chat's id.",
    "messages.groupChat.mentionPatterns": "Regular expressions that name the agent in groups.",
    "messages.groupChat.historyLimit": "How many unmentioned messages of a group come along as context.",
    "cron.maxConcurrentRuns": "How many scheduled runs go on at the same time.",
    "env": "Variables for the gateway that are used where the environment has none.",
    "logging": "What is logged, and where.",
    "logging.level": "How much is written to the log file.",
}


# What the process binds or connects when it starts. Everything else is read anew for each message.
RESTART: tuple[Path, ...] = (
    ("gateway", "port"),
    ("gateway", "bind"),
    ("gateway", "customBindHost"),
    ("gateway", "tls"),
    ("channels",),
)


def _agent(settings: Settings) -> AgentSettings:
    return settings.agents[settings.default_agent]


EFFECTIVE: dict[str, Callable[[Settings], Any]] = {
    "agents.defaults.workspace": lambda s: _agent(s).workspace,
    "agents.defaults.model": lambda s: _agent(s).model or None,
    "agents.defaults.timeoutSeconds": lambda s: _agent(s).timeout,
    "agents.defaults.thinkingDefault": lambda s: _agent(s).thinking_shared,
    "agents.defaults.skipBootstrap": lambda s: _agent(s).skip_bootstrap,
    "agents.defaults.maxConcurrent": lambda s: s.lanes.main,
    "agents.defaults.subagents.maxConcurrent": lambda s: s.lanes.subagent,
    "cron.maxConcurrentRuns": lambda s: s.lanes.cron,
    "messages.queue.cap": lambda s: s.queue.cap,
    "gateway.port": lambda s: s.gateway.port,
    "gateway.bind": lambda s: s.gateway.bind,
    "gateway.auth.mode": lambda s: s.gateway.auth_mode,
    "gateway.auth.token": lambda s: s.gateway.token or "made at the first start, in gateway.token",
    "gateway.controlUi.allowedOrigins": lambda s: list(s.gateway.allowed_origins),
    "gateway.http.endpoints.chatCompletions.enabled": lambda s: s.gateway.chat_completions,
    "session.scope": lambda s: s.session.scope,
    "session.dmScope": lambda s: s.session.dm_scope or "main",
    "session.mainKey": lambda s: s.session.main_key,
    "tools.allow": lambda s: None if s.policy.shared.own.allow is None else list(s.policy.shared.own.allow),
    "tools.deny": lambda s: list(s.policy.shared.own.deny),
    "tools.profile": lambda s: s.policy.shared.own.profile or None,
    "tools.fs.workspaceOnly": lambda s: s.tools.workspace_only,
    "tools.exec.timeoutSec": lambda s: s.tools.exec.timeout,
    "tools.loopDetection.warningThreshold": lambda s: s.tools.loop_warn,
    "tools.loopDetection.criticalThreshold": lambda s: s.tools.loop_stop,
}


class KeyExplanation(msgspec.Struct, frozen=True):
    key: str
    value: Any  # secrets masked; None = not set and no default
    source: str  # file:line, "default" or "not set"
    live: bool  # does a change apply without a restart
    about: str = ""
    note: str = ""


def needs_restart(path: Path) -> bool:
    """Must the gateway start again for a change at `path` (or around it) to take effect?"""
    return any(path[: len(key)] == key or key[: len(path)] == path for key in RESTART)


def explain_key(loaded: LoadedConfig, key: str) -> KeyExplanation:
    """Everything about `key`. Raises BadRequest if it is no key path, NotFound if there is no such key."""
    path = resolve_key(loaded, key)
    name = show_path(path)
    pattern = show_path(part if isinstance(part, str) else 0 for part in path).replace("[0]", "[]")
    about = KEY_MEANINGS.get(name) or KEY_MEANINGS.get(pattern, "")
    if has_at(loaded.raw, path):
        value = mask_secrets(get_at(loaded.raw, path), path)
        note = f"not what {loaded.file} says now: that file cannot be used" if loaded.fallback else ""
        return KeyExplanation(name, value, _where(loaded, path), not needs_restart(path), about, note)
    value = find_effective(loaded, path)
    source = "default" if value is not None else "not set"
    return KeyExplanation(name, value, source, not needs_restart(path), about)


def find_effective(loaded: LoadedConfig, path: Path) -> Any:
    """What applies although the file does not say it; None if nothing does."""
    find = EFFECTIVE.get(show_path(path))
    value = find(loaded.settings) if find else None
    return MASK if isinstance(value, Secret) or (is_secret(path) and value and not isinstance(value, str)) else value


def resolve_key(loaded: LoadedConfig, key: str) -> Path:
    """`key` as a path that is in the file or in the schema. Raises BadRequest or NotFound."""
    try:
        path = settle_path(parse_path(key), loaded.raw)
    except ValueError as error:
        raise BadRequest(str(error)) from None
    if has_at(loaded.raw, path) or describe_key(path) is not None:
        return path
    for size in range(len(path)):
        if describe_key(path[: size + 1]) is None:
            hint = suggest_nearest(str(path[size]), list_keys_below(path[:size]))
            raise NotFound(f"there is no key {show_path(path)}", fix=hint or f"keys here: {_sample(path[:size])}")
    return path


def _sample(path: Path) -> str:
    names = list_keys_below(path)
    return ", ".join(names[:12]) + (", …" if len(names) > 12 else "") if names else "none"


def _where(loaded: LoadedConfig, path: Path) -> str:
    data = files.read_file(loaded.source)
    text = files.decode_text(data) if isinstance(data, bytes) else ""
    line = lines.scan_json(text).line(path) if isinstance(text, str) else 0
    return f"{loaded.source}:{line}" if line else loaded.source
