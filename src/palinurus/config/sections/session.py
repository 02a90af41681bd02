"""session and messages: how conversations are told apart, when they start anew, what waits while a run goes on; skills,
the log and what else is told of runs, and where the state is."""

import os
import re
import socket
from collections.abc import Mapping
from hashlib import blake2b
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias

import msgspec

from palinurus.config.declare import Section, Unfilled, option, same_form
from palinurus.config.findings import ConfigPlace
from palinurus.config.forms import (
    Count,
    FolderList,
    Free,
    GroupChatSection,
    Hour,
    LogLevel,
    LooseMillis,
    LooseSecret,
    MillisOrNone,
    Names,
    OptionalSecret,
    Ratio,
    Size,
    Text,
    Typing,
    between,
    merge_raw,
)
from palinurus.config.kinds import Written
from palinurus.config.paths import STORE_VARIABLE
from palinurus.config.secrets import Secret
from palinurus.config.sections.audio import SpeechSettings
from palinurus.config.sections.bindings import SendPolicy
from palinurus.config.sections.context import LearningSettings
from palinurus.config.sections.schedule import UpkeepSettings

QueueMode: TypeAlias = Literal["steer", "followup", "collect", "steer-backlog", "steer+backlog", "queue", "interrupt"]


class ResetSection(Section, frozen=True):
    ABOUT: ClassVar = """
        mode daily, or idle.
        atHour At which hour of the day.
        idleMinutes After how long without a message.
    """
    KNOWN: ClassVar = {"mode": Literal["daily", "idle"], "atHour": Hour, "idleMinutes": Size}


class ResetByTypeSection(Section, frozen=True):
    KNOWN: ClassVar = same_form(ResetSection, "direct dm group thread")


Reset: TypeAlias = Annotated[Free, Unfilled(ResetSection)]


def map_identity_links(section: Mapping[str, list[str]]) -> dict[str, str]:
    """`channel:peer` (or a bare peer) in lower case -> the name of the person."""
    return {
        peer.strip().lower(): name.strip()
        for name, peers in section.items()
        for peer in peers
        if name.strip() and peer.strip()
    }


def _words(written: list[str]) -> Names:
    """In lower case, longest first: of two that fit the longer one counts."""
    found = {word for one in written if (word := " ".join(one.lower().split()))}
    return tuple(sorted(found, key=lambda word: (-len(word), word)))


class SessionSettings(Section, frozen=True):
    """session"""

    ABOUT: ClassVar = """
        resetByType When conversations start anew, by kind of chat.
        maintenance When old sessions go.
        resetByChannel When conversations start anew, by channel.
        identityLinks Ids of one person on several channels, by name.
        idleMinutes The older spelling of reset.idleMinutes.
        typingMode As agents.defaults.typingMode.
        typingIntervalSeconds As agents.defaults.typingIntervalSeconds.
    """
    scope: Literal["per-sender", "global"] = option(
        "per-sender", "per-sender keeps people apart, global puts everyone into one session."
    )
    # "" (not said): main for the owner, everybody else by themselves (inbox/access.py)
    dm_scope: Annotated[
        str, Written(Literal["main", "per-peer", "per-channel-peer", "per-account-channel-peer"], str)
    ] = option("", "Which session direct messages go to.")
    main_key: Annotated[str, Written(str, lambda text: text.strip() or msgspec.UNSET)] = option(
        "main", "The name of the main session."
    )
    reset: Reset = option({}, "When a session starts anew: daily at an hour, or after idle minutes.")
    reset_by_type: Annotated[dict[str, Any], Unfilled(ResetByTypeSection)] = {}
    reset_by_channel: dict[str, Reset] = {}
    # "channel:peer" (lower case) -> the one name of that person
    identity_links: Annotated[dict[str, str], Written(dict[str, list[str]], map_identity_links)] = {}
    reset_triggers: Annotated[Names, Written(list[str], _words)] = option(
        (), "Words that begin a new session, as /new does, alone or with a first message behind them."
    )
    send_policy: SendPolicy = option(SendPolicy(), "Which sessions may send what they say.")
    upkeep: UpkeepSettings = option(UpkeepSettings(), at="maintenance")
    learning: LearningSettings = option(LearningSettings(), "What the agent proposes to remember; /learn always can.")

    KNOWN: ClassVar = {"idleMinutes": Count, "typingMode": Typing, "typingIntervalSeconds": Count}

    def settle(self, raw: Mapping[str, Any], here: ConfigPlace) -> Self:
        reset, idle = merge_raw(self.reset), raw.get("idleMinutes")
        by_type = {kind: merge_raw(body) for kind, body in self.reset_by_type.items() if body is not None}
        if "dm" in by_type:
            by_type.setdefault("direct", by_type.pop("dm"))
        return msgspec.structs.replace(
            self,
            reset={"mode": "idle", "idleMinutes": idle} if idle and not reset else reset,  # the old spelling
            reset_by_type=by_type,
            reset_by_channel={name: merge_raw(body) for name, body in self.reset_by_channel.items()},
        )


class BurstSettings(Section, frozen=True):
    """messages.inbound. Times in seconds."""

    wait: MillisOrNone = option(
        0.0, "How long a chat must be quiet before a turn begins: what is written in one go is one turn.", "debounceMs"
    )
    by_channel: dict[str, MillisOrNone] = option({}, "How long a chat must be quiet, by channel.")


class QueueSettings(Section, frozen=True):
    """messages.queue. Mode words as configured; `inbox/policy.py` knows what they mean. Times in seconds."""

    ABOUT: ClassVar = """
        debounceMs How long collected messages wait for more.
        drop What goes when too many wait: old, new, or old ones with a summary.
        byChannel The mode by channel.
        debounceMsByChannel The wait by channel.
    """
    mode: QueueMode = option("steer", "steer into the run, followup after it, collect into one, or interrupt it.")
    debounce: MillisOrNone = option(0.5, at="debounceMs")
    cap: Count = option(20, "How many messages may wait in one session.")
    drop: Literal["old", "new", "summarize"] = "summarize"
    by_channel: dict[str, QueueMode] = {}
    debounce_by_channel: dict[str, MillisOrNone] = option({}, at="debounceMsByChannel")
    burst: BurstSettings = option(BurstSettings(), at=None)  # messages.inbound


class MessagesSection(Section, frozen=True):
    ABOUT: ClassVar = """
        tts What is read aloud, at its older place.
        groupChat What happens in groups.
        ackReaction An emoji on messages that were taken.
        ackReactionScope On which: group-mentions, group-all, direct, all or off.
        removeAckAfterReply true: it goes with the answer.
        visibleReplies message_tool: only what the message tool sends is seen; automatic: replies are.
    """
    group_chat: GroupChatSection = GroupChatSection()
    queue: QueueSettings = option(QueueSettings(), "What happens to messages that arrive while a run is going on.")
    inbound: BurstSettings = option(BurstSettings(), "Messages that are written in one go.")
    ack_reaction: str | None = None
    ack_reaction_scope: Literal["group-mentions", "group-all", "direct", "all", "off", "none"] = "group-mentions"
    remove_ack_after_reply: bool = False
    response_prefix: str = option(
        "", "What answers begin with: a text, with {model} or {identity.name} in it, or auto for the agent's name."
    )

    KNOWN: ClassVar = {
        "visibleReplies": Literal["automatic", "message_tool"],
        "tts": Annotated[Free, Unfilled(SpeechSettings)],
    }

    def settle(self, raw: Mapping[str, Any], here: ConfigPlace) -> Self:
        return msgspec.structs.replace(self, queue=msgspec.structs.replace(self.queue, burst=self.inbound))


class CommandSettings(Section, frozen=True):
    """commands: what can be typed in chats. Who may: `PeopleSettings`."""

    config: bool = option(True, "false: no /config, whoever asks.", closed=False)
    bash: bool = option(False, "true: the owner may run commands of this machine with /bash.", closed=False)
    bash_wait: MillisOrNone = option(
        2.0, "How long /bash waits for a command before it goes on in the background.", "bashForegroundMs"
    )
    mcp: bool = option(False, "true: the owner may change mcp.servers with /mcp.", closed=False)
    plugins: bool = option(False, "true: the owner may switch plugins with /plugins.", closed=False)
    restart: bool = option(True, "false: the agent cannot restart the gateway.", closed=False)
    native: Literal["auto"] | bool = option(
        "auto", "false: no commands in the platforms' own menus; channels.*.commands.native goes before."
    )

    KNOWN: ClassVar = {
        "ownerAllowFrom": Annotated[list[str | int], "Who is the owner on chat channels, as channel:id; all rights."],
        "allowFrom": Annotated[
            Free, "Who may give commands, by channel; not set: whom a list names.", option(closed={})
        ],
        "ownerDisplay": Annotated[Any, "hash: the model is told of owners without their ids."],
        "ownerDisplaySecret": Annotated[Any, "What the ids are hashed with."],
    }


class SkillEntry(Section, frozen=True):
    """skills.entries.<key>"""

    ABOUT: ClassVar = """
        apiKey The key that the skill needs.
        enabled false: it is not used.
        env Variables that its commands get.
    """
    enabled: bool = option(True, closed=False)
    key: LooseSecret = option(Secret(), at="apiKey")  # becomes the skill's primaryEnv
    env: dict[str, Any] = {}

    LOOSE: ClassVar = True

    def settle(self, raw: Mapping[str, Any], here: ConfigPlace) -> Self:
        env = {name: Secret(value) for name, value in self.env.items() if isinstance(value, str)}
        return msgspec.structs.replace(self, env=env)


class SkillSettings(Section, frozen=True):
    """skills. Paths are absolute."""

    ABOUT: ClassVar = """
        load.extraDirs More folders with skills.
        load.allowSymlinkTargets Where links in the folders of skills may lead.
        limits.maxCandidatesPerRoot How many folders are looked at in one place.
        limits.maxSkillsLoadedPerSource How many skills are taken from one place.
        limits.maxSkillsInPrompt How many are told to the model.
        limits.maxSkillsPromptChars How much of the prompt their list takes, in characters.
        limits.maxSkillFileBytes How large a SKILL.md may be.
        entries Settings of single skills, by name.
        allowBundled The only ones of ours that are used; not set: all.
    """
    entries: dict[str, SkillEntry] = {}
    bundled: Names | None = option(None, at="allowBundled", closed=[])  # None = all
    extra: FolderList = option((), at="load.extraDirs")
    targets: FolderList = option((), at="load.allowSymlinkTargets")  # where links may lead besides their root
    candidates: Count = option(300, at="limits.maxCandidatesPerRoot")  # folders looked at in one root
    loaded: Count = option(200, at="limits.maxSkillsLoadedPerSource")  # skills taken from one root
    listed: Count = option(150, at="limits.maxSkillsInPrompt")  # in the prompt
    chars: Count = option(18_000, at="limits.maxSkillsPromptChars")  # of the list in the prompt
    file_bytes: Count = option(256_000, at="limits.maxSkillFileBytes")  # of a SKILL.md


class RecordSettings(Section, frozen=True):
    """record"""

    enabled: bool = option(False, "Whether every run leaves a tape that `pal replay` can play (docs/replay.md).")
    room: Count = option(256 << 20, "How many bytes all tapes together may take; the oldest go first.", "maxBytes")


class LoggingSettings(Section, frozen=True):
    """logging"""

    ABOUT: ClassVar = """
        consoleStyle How the gateway shows its log: pretty, compact, or json.
    """
    file: str = option("", "Where the log is written; by default in the state directory.")
    level: LogLevel = option("info", "How much is written to the log file.")
    console_level: LogLevel | None = option(None, "How much the gateway shows; by default as much as it writes.")
    console_style: Literal["pretty", "compact", "json"] | None = None
    file_bytes: Count = option(20 << 20, "How large the log grows before a new one is begun.", "maxFileBytes")
    files: Size = option(2, "How many old log files are kept besides; 0: none.", "maxFiles")
    redact: Literal["off", "tools"] = option(
        "tools", "off blanks only the secrets of the config, not what looks like one.", "redactSensitive"
    )
    patterns: Names = option((), "Regular expressions of what is blanked besides.", "redactPatterns")

    @property
    def json_lines(self) -> bool:
        """Does the gateway show lines for programs?"""
        return self.console_style == "json"

    def settle(self, raw: Mapping[str, Any], here: ConfigPlace) -> Self:
        usable = []
        for index, word in enumerate(self.patterns):
            try:
                compile_pattern(word)
                usable.append(word)
            except (re.error, RecursionError, OverflowError) as exc:
                here.below("redactPatterns", index).odd("", f"is not a regular expression: {exc}; it is not used")
        return msgspec.structs.replace(self, patterns=tuple(usable))


class CaptureSettings(Section, frozen=True):
    """diagnostics.otel.captureContent: what people and models wrote, in spans; by default none of it."""

    enabled: bool = option(False, "Send what was said along, as far as the other keys say.")
    input: bool = option(False, "What the model is asked.", "inputMessages")
    output: bool = option(False, "What the model answers.", "outputMessages")
    system: bool = option(False, "The system prompt.", "systemPrompt")
    tools: bool = option(False, "The tools that the model is offered.", "toolDefinitions")
    tool_inputs: bool = option(False, "What tools are called with.")
    tool_outputs: bool = option(False, "What tools answer.")

    LOOSE: ClassVar = True


class SpanSettings(Section, frozen=True):
    """diagnostics.otel: runs, model calls and tool calls as OpenTelemetry spans, figures and log lines, over HTTP."""

    enabled: bool = option(False, "Send them (`pal extras add otel`).")
    traces: bool = option(True, "false: no spans.")
    metrics: bool = option(True, "false: no figures (runs, tokens, tool calls, and how long they took).")
    logs: bool = option(False, "true: the lines of the log, too, without secrets.")
    endpoint: Text = option("", "The collector, without a path; OTEL_EXPORTER_OTLP_ENDPOINT where nothing is said.")
    traces_endpoint: Text = option("", "The whole address for spans, instead of endpoint.")
    metrics_endpoint: Text = option("", "The whole address for figures.")
    logs_endpoint: Text = option("", "The whole address for log lines.")
    headers: dict[str, LooseSecret] = option({}, "Headers to send along, such as a key.")
    service: Text = option("palinurus", "What the program calls itself.", "serviceName")
    share: Ratio = option(1.0, "Of how many runs spans are sent: 1 of all, 0 of none.", "sampleRate")
    flush: LooseMillis = option(0.0, "How long spans wait for others before they are sent.", "flushIntervalMs")
    capture: CaptureSettings = option(CaptureSettings(), "What was said, in spans.", "captureContent")

    LOOSE: ClassVar = True

    def locate(self, signal: Literal["traces", "metrics", "logs"]) -> str:
        """Where they go; "": where the environment says."""
        own = {"traces": self.traces_endpoint, "metrics": self.metrics_endpoint, "logs": self.logs_endpoint}
        return own[signal] or (f"{self.endpoint.rstrip('/')}/v1/{signal}" if self.endpoint else "")


class CacheTraceSettings(Section, frozen=True):
    """diagnostics.cacheTrace: every request to a model as a line of a file, to see why a cache was missed."""

    enabled: bool = option(False, "Write a line for every request to a model.")
    file: Text = option("", "The file; by default logs/cache-trace.jsonl in the state directory.", "filePath")
    messages: bool = option(True, "With the conversation.", "includeMessages", closed=False)
    prompt: bool = option(True, "With the newest message.", "includePrompt", closed=False)
    system: bool = option(True, "With the system prompt.", "includeSystem", closed=False)

    LOOSE: ClassVar = True

    def settle(self, raw: Mapping[str, Any], here: ConfigPlace) -> Self:
        return msgspec.structs.replace(self, file=here.folder(self.file)) if self.file else self


class DiagnosticsSettings(Section, frozen=True):
    """diagnostics. Times in seconds."""

    enabled: bool = option(True, "false: nothing is sent anywhere.", closed=False)
    otel: SpanSettings = option(SpanSettings(), "Runs as OpenTelemetry spans, with figures and log lines.")
    flags: Names = option((), "Parts of the program that log everything, such as channels.telegram; * is all of it.")
    stuck_warn: LooseMillis = option(
        120.0, "After how long without a sign of life a run is named in the log.", "stuckSessionWarnMs"
    )
    stuck_abort: LooseMillis = option(0.0, "After how long it is stopped; by default never.", "stuckSessionAbortMs")
    cache_trace: CacheTraceSettings = option(CacheTraceSettings(), "Every request to a model, in a file.")

    LOOSE: ClassVar = True

    @property
    def spans(self) -> SpanSettings | None:
        """What is sent to a collector; None: nothing."""
        return self.otel if self.enabled and self.otel.enabled else None


def compile_pattern(word: str) -> re.Pattern[str]:
    """A bare expression, for which case does not matter, or `/expression/flags`. Raises re.error."""
    found = re.fullmatch(r"/(.+)/([gimsuy]*)", word, re.DOTALL)
    flags = re.IGNORECASE if found is None or "i" in found[2] else re.NOFLAG
    return re.compile(found[1] if found else word, flags)


class StoreSettings(Section, frozen=True):
    """store. Times in seconds."""

    url: OptionalSecret = option(
        Secret(""), "A PostgreSQL that several gateways share (docs/fleet.md); empty: files of this machine."
    )
    node: Text = option("", "What this gateway is called among them; by default the machine's name and a few letters.")
    lease: Annotated[float, between(2, 600)] = option(
        15.0, "How long a gateway may be silent before the others take over its work.", "leaseSeconds"
    )
    serves: Names = option(
        (),
        "The agents whose messages this gateway runs; by default those whose workspace it had first, or all if shared.",
    )
    shared_workspaces: bool = option(
        False, "The agents' workspaces are on a volume that all gateways have: any of them runs any agent."
    )

    def find_url(self, environ: Mapping[str, str]) -> str:
        """The fleet's database; "" where the state is this machine's own."""
        return environ.get(STORE_VARIABLE) or self.url.reveal()

    def name_node(self, home: str) -> str:
        """What this gateway is called."""
        mark = blake2b(os.path.realpath(home).encode(), digest_size=3).hexdigest()
        return self.node or f"{socket.gethostname()}-{mark}"

    def list_served(self) -> tuple[str, ...] | None:
        """Beginnings of the keys of sessions that run here; None: all."""
        return tuple(f"agent:{agent}:" for agent in self.serves) or None
