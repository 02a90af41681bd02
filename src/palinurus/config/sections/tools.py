"""tools: who may use what, and the limits of each. Names are OpenClaw's."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias

import msgspec

from palinurus.config.declare import Section, Unfilled, option
from palinurus.config.findings import ConfigPlace
from palinurus.config.forms import Count, Free, LowerNames, Names, Size, Text
from palinurus.config.kinds import GuardMap, Written
from palinurus.config.sections.audio import MediaSection
from palinurus.config.sections.models import VeiledSection
from palinurus.config.sections.web import WebSettings
from palinurus.core.types.approval import SAFE_HOSTS, IntentJudge, TaintMode, TaintRules
from palinurus.core.types.changes import ChangeRules
from palinurus.patterns import compile_late

UNLIMITED = 2_147_483.0  # seconds; what OpenClaw's timers can hold at most, here for "no limit"
YIELD_RANGE = (10, 120_000)  # milliseconds: the range of backgroundMs and of a call's yieldMs
CLEANUP = (60_000, 10_800_000)
EXEC_NAMES = {"timeoutSec": "timeoutSeconds"}
PROCESS_KEYS = ("backgroundMs", "cleanupMs", "notifyOnExit", "notifyOnExitEmptySuccess")  # of all agents together
Visibility: TypeAlias = Literal["self", "tree", "agent", "all"]
_HOST = compile_late(r"[a-z0-9-]+(?:\.[a-z0-9-]+)+")


def clamp_between(value: int, between: tuple[int, int]) -> int:
    """`value`, or the end of the range that is nearer to it."""
    return min(max(value, between[0]), between[1])


class ToolPolicySection(Section, frozen=True):
    """Lists of tools, by name or group."""

    allow: Names | None = option(
        None, "Only these tools (names or groups such as group:fs); an empty list is none.", closed=[]
    )
    also: Names = option((), "Tools in addition to the profile.", "alsoAllow")
    deny: Names = option((), "Never these tools; goes before every allow.", closed=["*"])


class ToolProfileSection(ToolPolicySection, frozen=True):
    profile: Literal["minimal", "coding", "messaging", "full"] | None = option(
        None, "A named set of tools to start from: minimal, coding, messaging or full.", closed="minimal"
    )


class ProcessSettings(Section, frozen=True):
    """tools.exec: when a command moves to the background, and what happens when it ends there. Values out of range
    are brought into it, as OpenClaw does."""

    yield_ms: Annotated[int, Written(Count, lambda ms: clamp_between(ms, YIELD_RANGE))] = option(
        10_000, "How long a command is waited for before it goes on in the background.", "backgroundMs"
    )
    cleanup: Annotated[float, Written(Count, lambda ms: clamp_between(ms, CLEANUP) / 1000)] = option(
        1800.0, "How long a finished background command can still be looked at.", "cleanupMs"
    )
    notify: bool = option(True, "The end of a background command wakes the session that started it.", "notifyOnExit")
    notify_empty: bool = option(False, "… also when it succeeded and printed nothing.", "notifyOnExitEmptySuccess")


class ExecWords(Section, frozen=True):
    """tools.exec: which commands run, which are asked about; which models patch files."""

    ABOUT: ClassVar = """
        mode Both words at once: deny, allowlist, ask, auto or full.
        security Which commands run outside the sandbox: deny (none), allowlist, or full.
        ask When a person is asked: off, on-miss or always.
        host Where commands run: auto, sandbox, gateway (this machine) or node.
        safeBins Programs that need no question when they only read their input.
        safeBinTrustedDirs Folders that these may lie in.
        applyPatch.enabled false: no apply_patch.
        applyPatch.allowModels The only models that get it.
    """
    mode: Literal["deny", "allowlist", "ask", "auto", "full"] | None = option(None, closed="deny")
    security: Literal["deny", "allowlist", "full"] | None = option(None, closed="deny")
    ask: Literal["off", "on-miss", "always"] | None = option(None, closed="always")
    host: Literal["auto", "sandbox", "gateway", "node"] | None = option(None, closed="sandbox")
    node: Text = option("", "The node that host=node means where a call names none.")
    safe_bins: Names | None = option(None, closed=[])
    safe_dirs: Names = option((), at="safeBinTrustedDirs")
    patch: bool = option(True, at="applyPatch.enabled", closed=False)
    patch_models: Names | None = option(None, at="applyPatch.allowModels", closed=[])


class ExecSettings(VeiledSection, frozen=True):
    """tools.exec. Times in seconds."""

    ABOUT: ClassVar = """
        timeoutSeconds The newer spelling of timeoutSec.
    """
    timeout: Annotated[float, Written(Size, lambda seconds: float(seconds) or UNLIMITED)] = option(
        1800.0, "How long a command may take, in seconds; 0 is no limit.", "timeoutSec"
    )
    env: dict[str, str] = option({}, "Variables that commands get in addition.")
    process: ProcessSettings = option(ProcessSettings(), at="*")
    patch_workspace_only: bool = option(
        True, "Patches stay inside the workspace, whatever else is open.", "applyPatch.workspaceOnly"
    )
    words: ExecWords = option(ExecWords(), at="*")

    KNOWN: ClassVar = {"timeoutSeconds": Size}

    def settle(self, raw: Mapping[str, Any], here: ConfigPlace) -> Self:
        newer = raw.get("timeoutSeconds")
        if newer is None or raw.get("timeoutSec") is not None:
            return self
        return msgspec.structs.replace(self, timeout=float(newer) or UNLIMITED)


class ElevatedSection(Section, frozen=True):
    ABOUT: ClassVar = """
        enabled false: no command leaves the sandbox.
        allowFrom Who may have commands leave it, by channel.
    """
    enabled: bool = True
    allow_from: dict[str, tuple[str | int, ...]] | None = None

    SEALED: ClassVar = {"enabled": False}


class MessageToolRules(Section, frozen=True):
    """tools.message: other chats than the one a turn answers."""

    ABOUT: ClassVar = """
        crossContext.allowWithinProvider false: only into the chat of the turn.
        crossContext.allowAcrossProviders true: any turn may write to other channels; not set: the owner's may.
        broadcast.enabled false: nothing goes to several chats at once.
        allowCrossContextSend The older spelling of crossContext.allowAcrossProviders.
    """
    within: bool = option(True, at="crossContext.allowWithinProvider", closed=False)  # on the same channel
    # None: for the owner only
    across: bool | None = option(None, at="crossContext.allowAcrossProviders", closed=False)
    broadcast: bool = option(True, at="broadcast.enabled", closed=False)  # several at once

    LOOSE: ClassVar = True
    KNOWN: ClassVar = {"allowCrossContextSend": Annotated[bool, option(closed=False)]}

    def settle(self, raw: Mapping[str, Any], here: ConfigPlace) -> Self:
        return (
            self if self.across is not None else msgspec.structs.replace(self, across=raw.get("allowCrossContextSend"))
        )


class LoopSettings(Section, frozen=True):
    """tools.loopDetection: what happens when a tool is called again and again with the same arguments and result."""

    enabled: bool = option(True, "false: nobody counts.")
    warn: Count = option(3, "After so many equal calls the model is warned.", "warningThreshold")
    stop: Count = option(6, "After so many equal calls the run ends.", "criticalThreshold")
    breaker: Count = option(
        30, "After so many equal calls the run ends, whichever detectors are on.", "globalCircuitBreakerThreshold"
    )
    history: Count = option(30, "How many calls are looked back on.", "historySize")
    unknown: Count = option(10, "After so many calls of tools that do not exist the run ends.", "unknownToolThreshold")
    repeat: bool = option(True, "One call again and again.", "detectors.genericRepeat")
    poll: bool = option(
        True, "Looking again and again at a command that says nothing new.", "detectors.knownPollNoProgress"
    )
    ping_pong: bool = option(True, "Two calls in turn.", "detectors.pingPong")

    GROUPS: ClassVar = {"detectors": "Which patterns count."}

    def settle(self, raw: Mapping[str, Any], here: ConfigPlace) -> Self:
        stop = self.stop if raw.get("criticalThreshold") else max(self.stop, self.warn * 2)
        if stop <= self.warn:
            name = "criticalThreshold" if raw.get("criticalThreshold") else "warningThreshold"
            here.bad(name, f"the run would stop (at {stop}) before it was warned (at {self.warn})")
            return msgspec.structs.replace(self, warn=LoopSettings().warn, stop=LoopSettings().stop)
        history = self.history if raw.get("historySize") else max(self.history, stop)
        if history < stop:
            here.odd("historySize", f"the run never ends for this reason: it takes {stop} equal calls to notice")
        return msgspec.structs.replace(self, stop=stop, history=history)


class AgentToolsSection(ToolProfileSection, frozen=True):
    """agents.list[].tools, and what `tools` can say as well."""

    ABOUT: ClassVar = """
        elevated Commands that leave the sandbox.
        byProvider Profile and lists for models of one provider or for one model.
        toolsBySender Lists for single people, by id.
    """
    by_provider: dict[str, ToolProfileSection] = {}
    tools_by_sender: dict[str, ToolPolicySection] = option({}, closed={"*": {"deny": ["*"]}})
    elevated: ElevatedSection | None = None
    exec: ExecSettings = option(ExecSettings(), "Running commands.")
    workspace_only: bool = option(False, "File tools stay inside the workspace.", "fs.workspaceOnly", closed=True)
    loops: LoopSettings = option(
        LoopSettings(),
        "What happens when a tool is called again and again with the same arguments.",
        "loopDetection",
    )
    sandbox: ToolPolicySection | None = option(None, at="sandbox.tools")


TaintModes: TypeAlias = Annotated[dict[str, TaintMode], GuardMap(TaintMode, closed="strict")]


class TaintSection(Section, frozen=True):
    """tools.taint: what passes unasked after untrusted content was read."""

    enabled: bool = option(True, "false: nothing is asked for that reason.")
    mode: TaintMode = option(
        "judged",
        "strict: every effect asks; judged: those whose deciding values the owner did not give; off: none.",
        closed="strict",
    )
    agents: TaintModes = option({}, "The mode of one agent, by its id.")
    channels: TaintModes = option({}, "The mode of what comes by one channel. Of two words the stricter counts.")
    intent: IntentJudge = option(
        "rules",
        "model: where your words are not understood but gave every value, the run's model is shown them and the tool's "
        "name, and a yes saves a question. For languages that the rules do not know.",
    )
    allow: Names = option((), "Tools that need no question; exec:network leaves commands their network.")
    hosts: Names = option((), "Hosts whose pages are fetched unasked, besides well-known documentation.")

    def make_rules(self, here: ConfigPlace) -> TaintRules:
        """`hosts` adds to those we know; a host that is none is a finding and is left out."""
        hosts = []
        for host in self.hosts:
            name = host.strip().lower().rstrip(".")
            if _HOST.fullmatch(name) and not name.rpartition(".")[2].isdigit():
                hosts.append(name)
            else:
                here.bad("hosts", f"{host!r} is no host name", "write docs.example.org")
        allow = tuple(dict.fromkeys(name.strip() for name in self.allow if name.strip()))
        enabled = self.enabled and self.mode != "off"
        rules = TaintRules(enabled, allow, (*SAFE_HOSTS, *hosts), self.mode)
        return msgspec.structs.replace(rules, agents=self.agents, channels=self.channels, intent=self.intent)


class SpawnFileRules(Section, frozen=True):
    """tools.sessions_spawn.attachments: files that sub-agents are given."""

    enabled: bool = option(True, "false: sub-agents are given no files.", closed=False)
    files: Count = option(50, "How many files at most.", "maxFiles")
    file_bytes: Count = option(5_000_000, "How large one may be.", "maxFileBytes")
    total: Count = option(5_000_000, "How large all of them may be.", "maxTotalBytes")
    keep: bool = option(
        True, "false: the files go when the sub-agent has ended, even if its session stays.", "retainOnSessionKeep"
    )


class ChangesSection(Section, frozen=True):
    """tools.changes: what is kept of files that calls change (docs/changes.md)."""

    enabled: bool = option(True, "false: nothing is kept, so nothing can be shown or undone.")
    files: Count = option(5_000, "Workspaces with more files are not looked at around commands.", "maxFiles")
    file_mb: Count = option(4, "Files larger than this are not kept: their change is seen, not undone.", "maxFileMb")
    mb: Count = option(256, "How much all contents together may take; the oldest runs go first.", "keepMb")
    runs: Count = option(200, "How many runs can be undone.", "keepRuns")
    days: Count = option(30, "How long a run can be undone.", "keepDays")

    def make_rules(self) -> ChangeRules:
        """The same as the program counts it."""
        sizes = {"files": self.files, "file_bytes": self.file_mb << 20, "bytes": self.mb << 20}
        return ChangeRules(self.enabled, **sizes, runs=self.runs, age=self.days * 86_400_000)


class ToolsSettings(msgspec.Struct, frozen=True):
    """tools, but for who may use which: that is `Settings.policy`."""

    workspace_only: bool = False
    exec: ExecSettings = ExecSettings()
    loops: LoopSettings = LoopSettings()
    taint: TaintRules = TaintRules()
    plan: bool = True  # is there update_plan
    attachments: SpawnFileRules = SpawnFileRules()
    changes: ChangeRules = ChangeRules()


class ToolsSection(AgentToolsSection, frozen=True):
    """tools"""

    ABOUT: ClassVar = """
        sessions.visibility Which sessions a session sees: self, tree (its sub-agents), agent or all.
        agentToAgent.enabled true: agents may write to each other.
        agentToAgent.allow Which agents; * is all.
    """
    web: Annotated[Free, Unfilled(WebSettings)] = {}
    media: Annotated[Free, Unfilled(MediaSection)] = {}
    visibility: Visibility = option("tree", at="sessions.visibility", closed="self")
    across: bool = option(False, at="agentToAgent.enabled")
    across_allow: LowerNames = option((), at="agentToAgent.allow")
    subagents: ToolPolicySection | None = option(None, at="subagents.tools")
    message: MessageToolRules = option(
        MessageToolRules(), "Where the message tool may write besides the chat of the turn (docs/channels.md)."
    )
    # read by sections/people.py, which knows the channels
    trust_from: Names = option(
        (), "Who else may use the machine as the owner does: telegram:123, telegram:group:-100, telegram:*.", closed=[]
    )
    taint: TaintSection = option(
        TaintSection(), "What is asked about after untrusted content was read (docs/security.md)."
    )

    plan: bool = option(True, "false: there is no tool for plans.", "experimental.planTool")
    attachments: SpawnFileRules = option(
        SpawnFileRules(), "Files that sub-agents are given.", "sessions_spawn.attachments"
    )
    changes: ChangesSection = option(ChangesSection(), "What runs change in the workspace, to be shown and undone.")

    def make_settings(self, here: ConfigPlace) -> ToolsSettings:
        """The settings; what is wrong goes to the findings."""
        taint = self.taint.make_rules(here.below("taint"))
        made = ToolsSettings(self.workspace_only, self.exec, self.loops, taint=taint)
        kept = self.changes.make_rules()
        return msgspec.structs.replace(made, plan=self.plan, attachments=self.attachments, changes=kept)
