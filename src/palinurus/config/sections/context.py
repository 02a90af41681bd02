"""What of a history is sent, and when it is shortened: agents.defaults.contextPruning and .compaction, the limits of
channels and of tool results; and what sub-agents may take."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

import msgspec

from palinurus.config.declare import Section, fill_section, option, same_form
from palinurus.config.findings import ConfigPlace
from palinurus.config.forms import (
    SIZE,
    Count,
    Filled,
    Free,
    LowerNames,
    Minutes,
    Names,
    Ratio,
    Seconds,
    Size,
    Text,
    lay_over,
    parse_size,
)
from palinurus.config.kinds import Written
from palinurus.core.history.fit import TurnLimits
from palinurus.core.history.prune import PruningRules
from palinurus.core.stream.chunk import BlockSettings

PROMPT_ROOM = 8_000  # tokens that stay for the prompt, whatever is reserved: these, or half of a small window


class MemoryFlushSettings(Section, frozen=True):
    """compaction.memoryFlush. `soft`: so many tokens before a compaction is due."""

    ABOUT: ClassVar = """
        enabled false: the agent is not asked to note what matters before a compaction.
        softThresholdTokens How many tokens before a compaction it is asked.
        forceFlushTranscriptBytes In a conversation larger than this it is asked, too; 0 is never.
        prompt What it is asked.
        systemPrompt What is added to its prompt then.
        model The model that is asked; by default the session's.
    """
    enabled: bool = True
    soft: Size = option(4_000, at="softThresholdTokens")
    force_bytes: Size = option(2 << 20, at="forceFlushTranscriptBytes")  # of the transcript; 0 = never by size
    prompt: Text = ""
    system: Text = option("", at="systemPrompt")
    model: Text = ""

    LOOSE: ClassVar = True


class LearningSettings(Section, frozen=True):
    """session.learning"""

    ABOUT: ClassVar = """
        atEnd true: when a session ends, the agent proposes what it should remember; each such look is a model call.
        nightly true: the same once a day for sessions in which somebody said something since.
        model The model that is asked; by default the agent's.
    """
    at_end: bool = False
    nightly: bool = False
    model: Text = ""


class QualityGuard(Section, frozen=True):
    """compaction.qualityGuard"""

    ABOUT: ClassVar = """
        enabled false: summaries are taken as they come.
        maxRetries How often a summary that lacks something is asked for again.
    """
    enabled: bool | None = None
    retries: Annotated[int, Written(Size, lambda most: min(3, most))] = option(2, at="maxRetries")

    LOOSE: ClassVar = True


def _enabled(value: Any) -> bool:
    return value is not False and not (isinstance(value, Mapping) and value.get("enabled") is False)


def _parse_room(text: str | int) -> int:
    found = parse_size(text or 0)
    if found is None:
        raise ValueError
    return found


class CompactionSettings(Section, frozen=True):
    """When a conversation is shortened, by how much, and by whom. Tokens; times in seconds."""

    ABOUT: ClassVar = """
        qualityGuard Whether a summary is checked.
        memoryFlush What the agent notes before.
        reserveTokens Tokens of the window that are kept free.
        reserveTokensFloor The least that is kept free; 0 is none.
        keepRecentTokens How much of the newest conversation stays as it is, in tokens.
        maxHistoryShare The most that it may take of the room for a history.
        recentTurnsPreserve How many of the newest turns stay as they are.
        identifierPolicy strict: names, numbers and paths are kept letter by letter; off; custom.
        identifierInstructions What to keep letter by letter, where the policy is custom.
        customInstructions What else a summary is to hold.
        model The model that makes summaries; by default the session's.
        timeoutSeconds How long a summary may take.
        notifyUser true: the chat is told of it.
        maxActiveTranscriptBytes A conversation larger than this is shortened, whatever its tokens; 0 is never.
        midTurnPrecheck false: it is only looked at between turns.
        mode default: a summary is taken as it comes; safeguard: it is checked, and asked for again.
    """
    reserve: Size = option(16_384, at="reserveTokens")
    floor: Size = option(20_000, at="reserveTokensFloor")  # 0 = none
    keep_recent: Count = option(20_000, at="keepRecentTokens")
    keep_asked: bool = option(False, at=None)  # keepRecentTokens is written: a /compact keeps that much too
    # of the room for a history that recent messages may take
    share: Annotated[float, msgspec.Meta(ge=0.1, le=0.9)] = option(0.5, at="maxHistoryShare")
    recent_turns: Annotated[int, msgspec.Meta(ge=0, le=12)] = option(3, at="recentTurnsPreserve")
    retries: int = option(2, at=None)  # further tries when a summary is not good enough
    identifiers: Literal["strict", "off", "custom"] = option("strict", at="identifierPolicy")
    identifier_text: Text = option("", at="identifierInstructions")
    instructions: Text = option("", at="customInstructions")
    model: Text = ""  # "" = the session's
    timeout: Seconds = option(180.0, at="timeoutSeconds")
    notify: bool = option(False, at="notifyUser")
    # of the messages the model sees; 0 = no limit
    max_bytes: Annotated[int, Written(str | Size, _parse_room, *SIZE)] = option(0, at="maxActiveTranscriptBytes")
    mid_turn: Annotated[bool, Written(Free | bool, _enabled)] = option(True, at="midTurnPrecheck")
    flush: MemoryFlushSettings = option(MemoryFlushSettings(), at="memoryFlush")
    sections: Names = option((), "Sections of AGENTS.md that are said again after it.", "postCompactionSections")

    KNOWN: ClassVar = {"mode": Literal["default", "safeguard"], "qualityGuard": QualityGuard}

    def settle(self, raw: Mapping[str, Any], here: ConfigPlace) -> Self:
        guard = fill_section(QualityGuard, raw.get("qualityGuard") or {}, here)
        off = guard.enabled is False or (guard.enabled is None and raw.get("mode") == "default")
        asked = raw.get("keepRecentTokens") is not None
        return msgspec.structs.replace(self, retries=0 if off else guard.retries, keep_asked=asked)

    def reserve_for(self, window: int) -> int:
        """Tokens of the window that the history does not get; a small window still leaves room for the prompt."""
        return min(max(self.reserve, self.floor), window - min(PROMPT_ROOM, window // 2))

    def limit(self, window: int) -> int:
        """More tokens than this and a compaction is due."""
        return window - self.reserve_for(window)


class BlockSizes(Section, frozen=True):
    """What blockStreamingChunk and blockStreamingCoalesce have in common, of all and of an account."""

    min_chars: Count | None = option(None, "A block has at least so many characters.")
    max_chars: Count | None = option(None, "A block has at most so many characters.")

    LOOSE: ClassVar = True

    def fit_into(self, base: BlockSettings, limit: int) -> BlockSettings:
        """`base` with these sizes, none of them above `limit`."""
        made = lay_over(base, self)
        most = min(made.max_chars, limit)
        return msgspec.structs.replace(made, max_chars=most, min_chars=min(made.min_chars, most))


class BlockSection(BlockSizes, frozen=True):
    prefer: Literal["paragraph", "newline", "sentence"] | None = option(
        None, "Where it is cut: paragraph, newline or sentence.", "breakPreference"
    )


class CoalesceSection(BlockSizes, frozen=True):
    idle: Annotated[int, Written(int, lambda ms: min(max(ms, 0), 5000))] | None = option(
        None, "How long a small block waits for the next one: 1000, 5000 at most.", "idleMs"
    )


class HumanDelaySection(Section, frozen=True):
    """humanDelay"""

    mode: Literal["off", "natural", "custom"] | None = option(None, "off, natural, or custom: between minMs and maxMs.")
    min_ms: Count | None = option(None, "The shortest pause.")
    max_ms: Count | None = option(None, "The longest pause.")

    LOOSE: ClassVar = True


class SilenceSection(Section, frozen=True):
    KNOWN: ClassVar = {"group": Annotated[Literal["allow", "disallow"], "disallow: in groups every turn is answered."]}


class OverlaySection(Section, frozen=True):
    KNOWN: ClassVar = {
        "gpt5.personality": Annotated[
            Literal["friendly", "on", "off"] | bool, "off: no words about how to speak for models of that family."
        ]
    }


class ContextLimitsSection(Section, frozen=True):
    ABOUT: ClassVar = """
        memoryGetDefaultLines How many lines memory_get reads when it names no number.
        memoryGetMaxChars How many characters it reads at most.
        toolResultMaxChars How much of a tool's result the model sees, in characters.
        postCompactionMaxChars How much of AGENTS.md is said again after a compaction, in characters.
    """
    KNOWN: ClassVar = same_form(
        Count, "memoryGetDefaultLines memoryGetMaxChars toolResultMaxChars postCompactionMaxChars"
    )


class MemorySearchSection(Section, frozen=True):
    ABOUT: ClassVar = """
        enabled false: there is no search of memory.
        extraPaths Files and folders that are searched besides.
        query.maxResults How many results at most; 50 is the most.
        query.minScore Only results from this score on.
        chunking.tokens How long the searched pieces are.
        chunking.overlap How much of a piece the next one repeats.
    """
    KNOWN: ClassVar = {
        "enabled": Annotated[bool, option(closed=False)],
        "extraPaths": list[str],
        "query.maxResults": Count,
        "query.minScore": Ratio,
        "chunking.tokens": Count,
        "chunking.overlap": Size,
    }


AGENT_SECTIONS = {  # keys of agents that are read where they are merged
    "contextLimits": ContextLimitsSection,
    "memorySearch": MemorySearchSection,
    "humanDelay": HumanDelaySection,
    "blockStreamingChunk": BlockSection,
    "blockStreamingCoalesce": CoalesceSection,
    "promptOverlays": OverlaySection,
    "silentReply": SilenceSection,
}


class RetrySettings(Section, frozen=True):
    """agents.*.runRetries: how often a model is asked for one answer, whatever goes wrong."""

    base: Count = option(24, "How often, whatever keys there are.")
    per_profile: Size = option(8, "How much more often for each key of the model's provider.")
    least: Count = option(32, "At least so often.", "min")
    most: Count = option(160, "At most so often.", "max")

    def limit(self, keys: int) -> int:
        """How often, with so many keys."""
        return max(min(self.base + self.per_profile * keys, self.most), min(self.least, self.most))


class StartupSettings(Section, frozen=True):
    """agents.*.startupContext: the notes of the last days before the first message after a bare /new or /reset."""

    enabled: bool = option(True, "The first message of a new session has the notes of the last days before it.")
    apply_on: tuple[Literal["new", "reset"], ...] = option(("new", "reset"), "After which of the commands.")
    days: Annotated[int, Written(Count, lambda days: min(days, 14))] = option(
        2, "Of how many days, today included; 14 at most.", "dailyMemoryDays"
    )
    file_bytes: Count = option(16_384, "How much of one file is read.", "maxFileBytes")
    file_chars: Count = option(1_200, "How much of one file is shown.", "maxFileChars")
    total_chars: Count = option(2_800, "How much of all files together.", "maxTotalChars")

    def applies(self, command: str) -> bool:
        """Do they stand before the first message after this command?"""
        return self.enabled and command in self.apply_on


class PruningSection(Section, frozen=True):
    """agents.defaults.contextPruning: `PruningRules` as the config writes them."""

    ABOUT: ClassVar = """
        mode off, cache-ttl (old tool results go when the cache is cold anyway), or aggressive.
        ttl How long a prompt cache holds.
        keepLastAssistants How many of the newest answers keep their tool results.
        softTrimRatio From which part of the window on results are shortened.
        hardClearRatio From which part of the window on they are taken out.
        minPrunableToolChars With fewer characters of results nothing is done.
        softTrim.maxChars Results longer than this are shortened.
        softTrim.headChars How much of their beginning stays.
        softTrim.tailChars How much of their end stays.
        hardClear.enabled false: nothing is taken out whole.
        hardClear.placeholder What stands in its place.
        tools.allow Only results of these tools.
        tools.deny Never results of these tools.
        maxCharsPerToolResult What a shortened result may have, where the mode is aggressive.
        toolResultHeadRatio Which part of that is its beginning.
        pruneAfterTurns After how many turns a result is old there.
    """
    mode: Literal["off", "cache-ttl", "aggressive"] | None = None
    ttl: Minutes | None = None
    keep_assistants: Size | None = option(None, at="keepLastAssistants")
    soft_ratio: Ratio | None = option(None, at="softTrimRatio")
    hard_ratio: Ratio | None = option(None, at="hardClearRatio")
    least: Size | None = option(None, at="minPrunableToolChars")
    soft_most: Size | None = option(None, at="softTrim.maxChars")
    head: Size | None = option(None, at="softTrim.headChars")
    tail: Size | None = option(None, at="softTrim.tailChars")
    clear: bool | None = option(None, at="hardClear.enabled")
    placeholder: Filled | None = option(None, at="hardClear.placeholder")
    allow: LowerNames | None = option(None, at="tools.allow")
    deny: LowerNames | None = option(None, at="tools.deny")
    most: Count | None = option(None, at="maxCharsPerToolResult")
    head_ratio: Ratio | None = option(None, at="toolResultHeadRatio")
    after_turns: Size | None = option(None, at="pruneAfterTurns")

    def make_rules(self) -> PruningRules:
        """The rules. Where maxCharsPerToolResult is set, cache-ttl trims to it too, split by toolResultHeadRatio."""
        base = PruningRules()
        if self.most is not None:
            ratio = base.head_ratio if self.head_ratio is None else self.head_ratio
            head = round(self.most * ratio)
            base = msgspec.structs.replace(base, soft_most=self.most, head=head, tail=self.most - head)
        return lay_over(base, self)


class TurnSection(Section, frozen=True):
    """What a channel says of histories; a limit that is no whole number counts as not written."""

    group: Count | None = option(None, at="historyLimit")
    direct: Count | None = option(None, at="dmHistoryLimit")
    people: dict[str, Any] = option({}, at="dms")

    LOOSE: ClassVar = True

    def make_limits(self) -> TurnLimits:
        limits = {peer.lower(): one.get("historyLimit") for peer, one in self.people.items() if isinstance(one, dict)}
        people = {peer: limit for peer, limit in limits.items() if type(limit) is int and limit >= 0}
        return TurnLimits(group=self.group, direct=self.direct, people=people)


class ContextSettings(msgspec.Struct, frozen=True):
    """`turns` by channel; `result_chars` by agent, under "" for all others."""

    pruning: PruningRules = PruningRules()
    turns: dict[str, TurnLimits] = {}
    result_chars: dict[str, int] = {}

    def results(self, agent: str) -> int | None:
        """Characters of one tool result; None: by the model's window."""
        return self.result_chars.get(agent) or self.result_chars.get("")


class SubagentModel(Section, frozen=True):
    KNOWN: ClassVar = {"primary": Annotated[str, "The model that is asked."]}


class SubagentSettings(Section, frozen=True):
    """agents.*.subagents, of one agent. Times in seconds. How deep they go is in `Settings.policy`, whom they may be
    in `Settings.reach`, how many run at once in `Settings.lanes`."""

    ABOUT: ClassVar = """
        delegationMode suggest: the prompt speaks of sub-agents; prefer: it asks for them.
    """
    children: Annotated[int, msgspec.Meta(ge=1, le=20)] = option(
        5, "How many sub-agents one session may have going.", "maxChildrenPerAgent"
    )
    model: Annotated[
        str, Written(str | SubagentModel, lambda spec: spec if isinstance(spec, str) else spec.get("primary") or "")
    ] = option("", "The model of sub-agents, if it is not the agent's own.")
    thinking: str = option("", "Their thinking level, if it is not the agent's own.")
    timeout: Annotated[float, Written(Size, float)] = option(
        0.0, "How long one run of a sub-agent may take; 0: no limit of its own.", "runTimeoutSeconds"
    )
    archive_after: Annotated[float, Written(Size, lambda minutes: minutes * 60.0)] = option(
        3600.0, "When a finished sub-agent's session is archived; 0 is never.", "archiveAfterMinutes"
    )
    named: bool = option(False, "Whoever starts a sub-agent must say which agent it is to be.", "requireAgentId")

    KNOWN: ClassVar = {
        "maxConcurrent": Annotated[Count, "How many sub-agent runs go on at the same time."],
        "maxSpawnDepth": Annotated[
            int, msgspec.Meta(ge=1, le=5), "How deep sub-agents may start sub-agents; 1: they start none."
        ],
        "allowAgents": Annotated[LowerNames, "Which other agents sub-agents may be; * is all."],
        "delegationMode": Literal["suggest", "prefer"],
    }
