"""Programs beside our own loop that can do a run, and which agents and models they do it for. Pure.

From agents.defaults.cliBackends, acp, plugins.entries.codex.config.appServer, and every `agentRuntime` in the config.
All but acp are free-form: what is not of the right kind counts as not written.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, ClassVar, Literal

import msgspec

from palinurus.config.declare import Section, option
from palinurus.config.findings import ConfigPlace, suggest_nearest
from palinurus.config.forms import Free, Names, Size, Text
from palinurus.config.secrets import Secret
from palinurus.config.sections.agents import AgentLayers
from palinurus.config.sections.models import ProviderSettings

CODEX, CLAUDE, ACP = "codex", "claude-cli", "acp"
OWN = frozenset({"", "auto", "pi", "openclaw", "palinurus", "embedded"})  # words for our own loop
# What each is started with, and the words of its options.
COMMANDS: dict[str, tuple[str, ...]] = {CODEX: ("codex", "app-server"), CLAUDE: ("claude",)}
APPROVALS = ("untrusted", "on-request", "never")
SANDBOXES = ("read-only", "workspace-write", "danger-full-access")
PERMISSIONS = ("default", "acceptEdits", "plan", "bypassPermissions", "dontAsk")


class AcpStreamSettings(Section, frozen=True):
    """acp.stream: how what an ACP program says reaches people."""

    delivery: Literal["live", "final_only"] = option(
        "live", "final_only: nothing is shown before its turn is over.", "deliveryMode"
    )
    between: Literal["paragraph", "newline", "space", "none"] = option(
        "paragraph",
        "What stands between texts that tools were used between, with final_only.",
        "hiddenBoundarySeparator",
    )
    most: Size = option(0, "How many characters of one turn are shown; 0: all.", "maxOutputChars")
    update: Size = option(0, "How many characters of one tool's result are kept; 0: all.", "maxSessionUpdateChars")


class AcpSettings(Section, frozen=True):
    """acp: programs that speak the Agent Client Protocol."""

    enabled: bool = option(True, "false: none of them does a run.", closed=False)
    allowed: Names = option((), "Only these of agents.defaults.cliBackends; none named: all.", "allowedAgents")
    default: Text = option("", "Which does the runs of agents whose runtime is acp and names none.", "defaultAgent")
    most: Size = option(
        0, "How many of them run at the same time at most; 0: as many as there are runs.", "maxConcurrentSessions"
    )
    stream: AcpStreamSettings = option(AcpStreamSettings(), "How what they say reaches people.")

    SEALED: ClassVar = {"enabled": False}

    def allows(self, name: str) -> bool:
        """May the program of that name do runs?"""
        return self.enabled and (not self.allowed or name in self.allowed)


class AcpPlace(msgspec.Struct, frozen=True):
    """agents.list[].runtime.acp: where the program works for this agent, and whether it knows what was before."""

    cwd: str = ""  # "": the workspace
    anew: bool = False  # mode oneshot: every turn is a conversation of its own


class RuntimeProgram(msgspec.Struct, frozen=True):
    """One program. "" = as the run's policy says."""

    command: tuple[str, ...]
    kind: str = ACP  # codex, claude-cli, or any that speaks ACP
    env: dict[str, Secret] = {}
    approval: str = ""  # codex: approvalPolicy
    sandbox: str = ""  # codex
    permission: str = ""  # claude: permissionMode
    mcp: str = ""  # claude: mcpConfig, a file or JSON text


class RuntimeSettings(msgspec.Struct, frozen=True):
    """`agents` and `models` (provider/model, with agent: before it or not, or a provider) name a program, "" is our own
    loop; a model goes before its agent."""

    programs: dict[str, RuntimeProgram] = {}
    agents: dict[str, str] = {}
    models: dict[str, str] = {}
    acp: AcpSettings = AcpSettings()
    places: dict[str, AcpPlace] = {}  # by agent

    def choose_program(self, agent: str, provider: str, model: str) -> str:
        """The program that does the runs of this agent with this model; "" = our own loop."""
        if provider in self.programs:
            return provider
        for name in (f"{agent}:{provider}/{model}", f"{provider}/{model}", provider):
            if name in self.models:
                return self.models[name]
        name = self.agents.get(agent, "")
        return name if name and provider in _MAKERS.get(name, (provider,)) else ""


# An agent's program does only what it can: a model of another maker is left to our own loop.
_MAKERS: dict[str, frozenset[str]] = {
    CODEX: frozenset({"openai", "openai-codex"}),
    CLAUDE: frozenset({"anthropic"}),
}


def resolve_runtimes(
    agents: Mapping[str, AgentLayers],
    shared: Free,
    codex: Free,
    providers: Mapping[str, ProviderSettings],
    *,
    acp: AcpSettings,
    here: ConfigPlace,
) -> RuntimeSettings:
    """The settings. `codex` is plugins.entries.codex.config."""
    backends = shared.get("cliBackends") or {}
    bodies = {name: _part(backends, name) for name in COMMANDS}
    bodies[CODEX] = {**_part(codex, "appServer"), **bodies[CODEX]}
    bodies |= {
        name: body for name, body in backends.items() if name not in COMMANDS and _speaks(body) and acp.allows(name)
    }
    chosen = {key: _chosen(layers, acp.default) for key, layers in agents.items()}
    entries = dict(shared.get("models") or {})
    for key, layers in agents.items():  # an agent's own word for a model goes before everybody's
        entries |= {f"{key}:{name}": entry for name, entry in (layers.own.get("models") or {}).items()}
    models = {name: _read_id(_part(entry, "agentRuntime")) for name, entry in entries.items()}
    _tell_unknown([*models.values(), *chosen.values()], bodies, here)
    for ident, provider in providers.items():
        told = {ident: provider.runtime} | {f"{ident}/{model.id}": model.runtime for model in provider.models}
        models |= {name: word for name, word in told.items() if word}
    return RuntimeSettings(
        {name: _program(name, body) for name, body in bodies.items()},
        {key: name for key, name in chosen.items() if name in bodies},
        {key: "" if name in OWN else name for key, name in models.items() if name and (name in OWN or name in bodies)},
        acp=acp,
        places={key: _place(layers, here) for key, layers in agents.items()},
    )


def _tell_unknown(names: Iterable[str], bodies: Collection[str], here: ConfigPlace) -> None:
    for name in sorted({*names} - OWN - {*bodies}):
        here.odd(
            "agents",
            f"no program {name[:40]!r} does runs here; our own loop does them",
            suggest_nearest(name, bodies) or "name one of agents.defaults.cliBackends",
        )


def _place(layers: AgentLayers, here: ConfigPlace) -> AcpPlace:
    told = _part(layers.own.get("runtime"), "acp")
    cwd = told.get("cwd")
    return AcpPlace(here.folder(cwd) if isinstance(cwd, str) and cwd.strip() else "", told.get("mode") == "oneshot")


def _program(name: str, body: Mapping[str, Any]) -> RuntimeProgram:
    command = body.get("command")
    args = [str(arg) for arg in body["args"]] if isinstance(body.get("args"), list) else None
    usual = COMMANDS.get(name, ("",))
    first = command.strip() if isinstance(command, str) and command.strip() else usual[0]
    env = {str(key): Secret(value) for key, value in _part(body, "env").items() if isinstance(value, str)}
    return RuntimeProgram(
        (first, *(usual[1:] if args is None else args)),
        name if name in COMMANDS else ACP,
        env,
        _one(body.get("approvalPolicy"), APPROVALS),
        sandbox=_one(body.get("sandbox"), SANDBOXES),
        permission=_one(body.get("permissionMode"), PERMISSIONS),
        mcp=str(body.get("mcpConfig") or ""),
    )


def _read_id(runtime: Any) -> str:
    found = runtime.get("id") if isinstance(runtime, Mapping) else None
    return found if isinstance(found, str) else ""


def _named(runtime: Any) -> str:
    """The id in an `agentRuntime`; "" for our own."""
    found = _read_id(runtime)
    return "" if found in OWN else found


def _chosen(layers: AgentLayers, usual: str) -> str:
    """agents.list[].runtime {type: "acp", acp: {agent}}, else agentRuntime. `usual`: acp.defaultAgent."""
    own, shared, _ = layers
    runtime = own.get("runtime") or {}
    if not runtime and not own.get("agentRuntime"):
        return _named(shared.get("agentRuntime"))
    named = _part(runtime, "acp").get("agent") or usual or None if runtime.get("type") == ACP else None
    return named if isinstance(named, str) else _named(own.get("agentRuntime"))


def _speaks(body: Any) -> bool:
    """Is it a backend that speaks ACP, with a command?"""
    return isinstance(body, dict) and body.get("protocol") == ACP and isinstance(body.get("command"), str)


def _part(body: Any, name: str) -> dict[str, Any]:
    found = body.get(name) if isinstance(body, Mapping) else None
    return found if isinstance(found, dict) else {}


def _one(word: Any, words: tuple[str, ...]) -> str:
    return word if isinstance(word, str) and word in words else ""
