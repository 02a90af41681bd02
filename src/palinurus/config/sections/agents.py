"""agents.defaults, agents.list[] (and its newer spelling agents.entries): one agent is its entry over the defaults.

Several keys stand in sections that are otherwise free-form: what is not of the right kind there counts as not written.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import msgspec

from palinurus.config import paths
from palinurus.config.declare import Section, Unfilled, fill_section, option, same_form
from palinurus.config.findings import ConfigPlace
from palinurus.config.forms import (
    Amount,
    Count,
    Free,
    GroupChatSection,
    IdentitySection,
    Level,
    ModelSpec,
    Names,
    Size,
    Switch,
    Text,
    Typing,
    choose_models,
    merge_deep,
    merge_raw,
    read_form,
)
from palinurus.config.keypath import Path, get_at
from palinurus.config.kinds import Written
from palinurus.config.secrets import Secret
from palinurus.config.sections.audio import ImageGenerationSettings, ImageModelSpec, SpeechSettings
from palinurus.config.sections.context import (
    AGENT_SECTIONS,
    CompactionSettings,
    PruningSection,
    RetrySettings,
    StartupSettings,
    SubagentSettings,
)
from palinurus.config.sections.models import VeiledSection
from palinurus.config.sections.sandbox import SandboxSection
from palinurus.config.sections.schedule import HeartbeatSettings
from palinurus.config.sections.tools import PROCESS_KEYS, UNLIMITED, AgentToolsSection, ToolsSettings
from palinurus.core.memory.results import MemoryOptions, read_memory_options
from palinurus.core.types.approval import PermissionMode
from palinurus.core.types.keys import parse_agent_id
from palinurus.core.types.sandbox import SandboxSettings

AGENT_ID = "an agent id is letters, digits, - and _, 64 at most"


class AgentLayers(NamedTuple):
    """What is written of one agent: in its own entry (which stands at `path`), and for all."""

    own: Free
    shared: Free
    path: Path

    def merge(self, name: str) -> Free:
        """A section of both, key by key."""
        return merge_raw(self.own.get(name), self.shared.get(name))

    def find(self, name: str, otherwise: Any = None) -> Any:
        """Its own word, else the shared one."""
        found = (layer.get(name) for layer in (self.own, self.shared))
        return next((value for value in found if value is not None), otherwise)


class AgentModelSection(Section, frozen=True):
    """agents.defaults.models["provider/model"]"""

    ABOUT: ClassVar = """
        agentRuntime.id The program that does runs with this model (docs/runtimes.md).
        alias A short name for this model.
        params Parameters that this model is asked with.
    """
    alias: Text = ""
    params: Free = {}
    runtime: str = option("", at="agentRuntime.id")


class BudgetSection(Section, frozen=True):
    KNOWN: ClassVar = same_form(
        Annotated[Count, "Tokens to think with at this level."], "minimal low medium high xhigh adaptive max"
    )


class ThinkingSection(Section, frozen=True):
    KNOWN: ClassVar = {
        "level": Annotated[Level, "How long the model thinks when nothing else was said; thinkingDefault goes before."],
        "budget": Annotated[BudgetSection, "Tokens to think with, by level, for models that take a number of them."],
    }


class PromptSettings(Section, frozen=True):
    """What the config says about an agent's system prompt, wherever that stands; `agent/facts` makes the prompt's
    knobs of it."""

    owners: Annotated[Names, Written(list[Any], lambda ids: tuple(str(i) for i in ids if isinstance(i, str | int)))] = (
        option((), at="commands.ownerAllowFrom")
    )
    owner_display: Literal["raw", "hash"] = option("raw", at="commands.ownerDisplay")
    owner_secret: Annotated[Secret, Written(Any, lambda text: Secret(str(text or "")))] = option(
        Secret(), at="commands.ownerDisplaySecret"
    )
    citations: Literal["auto", "on", "off"] = option("auto", at="memory.citations")
    delegation: Literal["suggest", "prefer"] = option("suggest", at="subagents.delegationMode")
    heartbeat: str = option("", at=None)  # the heartbeat's prompt; "" = ours
    heartbeat_every: float = option(1800.0, at=None)  # seconds; 0 = no heartbeats
    heartbeat_section: bool = option(True, at=None)
    silent_group: Literal["allow", "disallow"] = option("allow", at="shared.silentReply.group")
    truncation_warning: Literal["off", "once", "always"] = option(
        "always", at="shared.bootstrapPromptTruncationWarning"
    )
    friendly: bool = option(True, at=None)
    repo_root: Text = option("", at="shared.repoRoot")
    tool_only: Names = option((), at=None)  # kinds of chat where only the message tool's messages are seen

    LOOSE: ClassVar = True


class AgentSettings(VeiledSection, frozen=True):
    """One agent: agents.defaults overlaid by its agents.list[] entry."""

    ABOUT: ClassVar = """
        skillsLimits.maxSkillsPromptChars How much the list of skills may take of the prompt, in characters.
        tools What goes over tools for this agent.
        groupChat What it does in groups.
        compaction When a long conversation is shortened, and how.
        contextPruning What of old tool results is sent again.
        subagents How many sub-agents there may be, how deep, and with which model.
        heartbeat When the agent looks by itself for something to do (docs/schedules.md).
        thinking The level, and how many tokens each may take.
        imageModel The model that looks at pictures, or {primary, fallbacks}.
        verboseDefault How much is told of tools in chats: off, on or full.
        reasoningDefault Whether the model's thoughts are shown: off, on or stream.
        toolProgressDetail How a tool call is told: explain in words, or raw.
        params Parameters that every model is asked with; those of one model go over them.
        imageMaxDimensionPx Pictures in messages are made smaller until their longer side has so many pixels.
        bootstrapMaxChars How much of one workspace file is in the prompt, in characters.
        bootstrapTotalMaxChars How much of all workspace files together.
        skills The only skills that it may use; not set: all.
        typingMode When a chat shows that the agent types: never, instant, thinking or message.
        typingIntervalSeconds How often that is shown again.
        contextLimits How much memory_get, a tool result and the words after a compaction may take, in characters.
        memorySearch How memory is searched: how many results, which files, from which score on.
        humanDelay Pauses between the parts of an answer, as a person makes them.
        runtime Which program does this agent's runs (docs/runtimes.md).
        agentRuntime The older spelling of runtime.
        repoRoot The folder of the source that the prompt names.
        bootstrapPromptTruncationWarning Whether the prompt says that a file was shortened: off, once or always.
        permissionMode How much a run asks about: plan, ask, default, acceptEdits or full (docs/approvals.md).
        elevatedDefault Whether commands leave the sandbox unless a chat says otherwise: off, on, ask or full.
        blockStreamingDefault on: answers are sent in blocks while they are being made.
        blockStreamingBreak When a block may end: text_end (also between tools) or message_end.
        cliBackends Programs that can do runs, by name (docs/runtimes.md).
        blockStreamingChunk How long a block is: minChars, maxChars and breakPreference.
        blockStreamingCoalesce How small blocks are put together: minChars, maxChars and idleMs.
        promptOverlays Words for models of one family; gpt5.personality off takes them out.
        silentReply Whether the agent may say nothing, by kind of chat.
        name The agent's name, for people.
    """
    id: str = option(at=None)
    name: str = option(at=None)
    workspace: str = option(at=None)  # absolute
    model: str = option("", at=None)  # as written; "" = none configured
    fallbacks: Names = option((), at=None)
    aliases: dict[str, str] = option({}, at=None)  # alias -> provider/model
    model_params: dict[str, dict[str, Any]] = option({}, at=None)  # provider/model -> params
    thinking_default: str | None = option(None, at=None)  # its own
    thinking_shared: str | None = option(None, at=None)  # the defaults'; model params stand between the two
    fast_default: bool | Literal["auto"] | None = option(
        None, "Whether faster service is asked for: true, false or auto.", "fastModeDefault"
    )
    verbose_default: Literal["off", "on", "full"] = "off"
    reasoning_default: Literal["off", "on", "stream"] = "off"
    permission_mode: PermissionMode = option("default", closed="ask")
    progress_detail: Literal["explain", "raw"] = option("explain", at="toolProgressDetail")
    timeout: Annotated[float, Written(Size, lambda seconds: float(seconds) or UNLIMITED)] = option(
        172_800.0, "How long one run may take, in seconds; 0 is no limit.", "timeoutSeconds"
    )
    max_turns: int = option(200, at=None)
    context_tokens: Count | None = option(None, "The most tokens of context to use, even if the model could take more.")
    user_timezone: Text = option("", "The time zone of the user, such as Europe/Berlin.")
    identity: Annotated[Free, Unfilled(IdentitySection)] = {}
    skip_bootstrap: bool = option(False, "Do not create the workspace's starting files.")
    skip_files: tuple[Literal["SOUL.md", "USER.md", "HEARTBEAT.md", "IDENTITY.md"], ...] = option(
        (), "Starting files that are not created.", "skipOptionalBootstrapFiles"
    )
    params: Free = {}  # for every model; model_params goes over it
    prompt: PromptSettings = option(PromptSettings(), at=None)
    speech: SpeechSettings = option(SpeechSettings(), at=None)  # tts
    pictures: ImageGenerationSettings = option(ImageGenerationSettings(), at=None)  # imageGenerationModel
    memory: MemoryOptions = option(MemoryOptions(), at=None)
    image_side: Count = option(1200, at="imageMaxDimensionPx")  # pixels an image in a message is made smaller to
    time_format: Literal["auto", "12", "24"] = option("auto", "Clock format shown to the model: auto, 12 or 24.")
    bootstrap_chars: Count = option(12_000, at="bootstrapMaxChars")  # of one workspace file in the prompt
    bootstrap_total: Count = option(60_000, at="bootstrapTotalMaxChars")  # of all of them
    skills: Names | None = option(None, closed=[])  # which it may use; None = all
    skills_chars: Count | None = option(None, at="skillsLimits.maxSkillsPromptChars")  # None = skills.limits
    excerpt_chars: int = option(1_800, at=None)  # of AGENTS.md, after a compaction
    sandbox: SandboxSettings = option(SandboxSettings(), at=None)
    tools: ToolsSettings = option(ToolsSettings(), at=None)  # its own words over everybody's
    retries: RetrySettings = option(RetrySettings(), "How often a model is asked for one answer.", "runRetries")
    startup: StartupSettings = option(StartupSettings(), "What a new session begins with.", "startupContext")
    evidence: Literal["warn", "ask", "off"] = option(
        "warn",
        "Claims of an answer that nothing bears out: warn tells the person, ask also asks the model once more.",
    )
    injection: Literal["always", "continuation-skip", "never"] = option(
        "always",
        "When workspace files are in the prompt; continuation-skip leaves them out after a finished answer.",
        "contextInjection",
    )

    KNOWN: ClassVar = {
        "workspace": Annotated[str, "The directory the agent works in; tools and context files start here."],
        "model": Annotated[ModelSpec, "The model to use, as provider/model, an alias, or {primary, fallbacks}."],
        "models": Annotated[dict[str, AgentModelSection], "Aliases and parameters, by provider/model."],
        "thinkingDefault": Annotated[Level, "How long the model thinks when nothing else was said."],
        "thinking": ThinkingSection,
        "typingMode": Typing,
        "typingIntervalSeconds": Count,
        "heartbeat": HeartbeatSettings,
        "subagents": SubagentSettings,
        "sandbox": Annotated[SandboxSection, "What commands and file tools may do; `pal sandbox explain` shows it."],
        "tts": Annotated[Free, Unfilled(SpeechSettings), "What of this is read aloud, and by whom (docs/speech.md)."],
        "imageGenerationModel": Annotated[ImageModelSpec, "The model that makes pictures, or {primary, fallbacks}."],
        **AGENT_SECTIONS,
        **same_form(Free, "runtime agentRuntime"),
        # agents.defaults only
        "imageModel": ModelSpec,
        "imageQuality": Annotated[
            Literal["auto", "efficient", "balanced", "high"], "How sharp pictures are kept that are made smaller."
        ],
        "pdfModel": Annotated[ModelSpec, "The model that answers what the pdf tool is asked, or {primary, fallbacks}."],
        "pdfMaxBytesMb": Annotated[Amount, "How large a PDF may be."],
        "pdfMaxPages": Annotated[Count, "How many pages of a PDF are read at once."],
        "repoRoot": str,
        "bootstrapPromptTruncationWarning": Literal["off", "once", "always"],
        "contextPruning": PruningSection,
        "compaction": CompactionSettings,
        "elevatedDefault": Literal["off", "on", "ask", "full"],
        "blockStreamingDefault": Switch,
        "blockStreamingBreak": Literal["text_end", "message_end"],
        "maxConcurrent": Annotated[Count, "How many runs go on at the same time, over all sessions."],
        "mediaMaxMb": Annotated[Count, "How large files may be that people send, where the channel does not say it."],
        "cliBackends": Free,
        # agents.list[] only
        "id": Annotated[str, "The agent's short name: lower-case letters, digits, - and _."],
        "default": Annotated[bool, "This agent answers what is not routed to another one."],
        "name": str,
        "groupChat": GroupChatSection,
        "tools": AgentToolsSection,
    }


IMAGE_SIDES = {"efficient": 800, "balanced": 1200, "high": 2048}  # pixels; auto: as usual
ENTRY_ONLY = frozenset("id default name identity groupChat tools".split())
DEFAULTS_ONLY = frozenset(
    "imageModel imageQuality imageMaxDimensionPx pdfModel pdfMaxBytesMb pdfMaxPages repoRoot skipBootstrap "
    "skipOptionalBootstrapFiles bootstrapPromptTruncationWarning userTimezone timeFormat cliBackends contextPruning "
    "compaction elevatedDefault blockStreamingDefault blockStreamingBreak blockStreamingChunk blockStreamingCoalesce "
    "timeoutSeconds maxConcurrent mediaMaxMb promptOverlays silentReply".split()
)
# Keys of sections that an entry can have too, but for these.
SHARED_ONLY = {
    "subagents.maxConcurrent": "agents.defaults.subagents.maxConcurrent",
    "groupChat.historyLimit": "messages.groupChat.historyLimit",
    **{f"tools.exec.{name}": f"tools.exec.{name}" for name in PROCESS_KEYS},
}
ENTRY_WORDS = {
    "workspace": "The directory of this agent.",
    "model": "This agent's model; it then has only the fallbacks it names itself.",
}
CLOSED = {"id": "main", "tools": {"deny": ["*"]}, "sandbox": {"mode": "all"}}  # agents that cannot be read
Entry = Annotated[Free, Unfilled(AgentSettings, DEFAULTS_ONLY, ENTRY_WORDS)]


class AgentsSection(Section, frozen=True):
    ABOUT: ClassVar = """
        entries The same by id, instead of a list.
    """
    defaults: Annotated[Free, Unfilled(AgentSettings, without=ENTRY_ONLY)] = option(
        {}, "What applies to every agent unless its own entry says otherwise."
    )
    listed: list[Entry] = option([], "One entry for each agent.", "list", closed=[CLOSED])
    entries: dict[str, Entry] = {}

    def find_agents(self, here: ConfigPlace) -> tuple[dict[str, AgentLayers], str]:
        """The agents by id, and which is the default one; "main" if none is written."""
        listed: list[tuple[Path, str, Free]]
        listed = [(("agents", "list", at), entry.get("id") or "", entry) for at, entry in enumerate(self.listed)]
        listed += [(("agents", "entries", name), name, entry) for name, entry in self.entries.items()]
        found: dict[str, AgentLayers] = {}
        chosen = ""
        for path, written, entry in listed:
            place = here.below(*path)
            ident = "id" if path[1] == "list" else ""
            if (name := parse_agent_id(written)) is None:  # it stays: its messages are not for others, who may do more
                name = f"agent{len(found) + 1}"
                place.bad(ident, AGENT_ID, f"give it a short name such as 'work'; until then it is {name!r}")
            if name in found:
                place.bad(ident, f"there are two agents with the id {name!r}", "rename one")
            else:
                found[name] = AgentLayers(entry, self.defaults, path)
                for key, instead in SHARED_ONLY.items():
                    if get_at(entry, tuple(key.split("."))) is not None:
                        place.odd(key, "counts for all agents together, and not here", f"write it at {instead}")
                if entry.get("default") and chosen:
                    place.odd("default", f"{chosen!r} is the default already", "remove one")
                elif entry.get("default"):
                    chosen = name
        chosen = chosen or next(iter(found), "main")
        return found or {"main": AgentLayers({}, self.defaults, ("agents", "defaults"))}, chosen


def fill_agent(name: str, layers: AgentLayers, chosen: str, here: ConfigPlace) -> AgentSettings:
    """One agent; its prompt, memory and sandbox come from elsewhere."""
    own, shared, _ = layers
    models = read_form(dict[str, AgentModelSection], _merge_models(own.get("models"), shared.get("models")), here)
    model, fallbacks = choose_models(*(read_form(ModelSpec, one.get("model"), here) for one in (own, shared)))
    params = {**(shared.get("params") or {}), **(own.get("params") or {})}  # null takes a parameter away
    first, second = merge_raw(own.get("thinking")), merge_raw(shared.get("thinking"))
    if budgets := merge_raw(first.get("budget"), second.get("budget")):
        params = {"thinkingBudgets": budgets, **params}
    told = {**merge_raw(own, shared), "params": params, "skillsLimits": layers.merge("skillsLimits")}
    told |= {"identity": merge_raw(own.get("identity")), "startupContext": layers.merge("startupContext")}
    told["runRetries"] = layers.merge("runRetries")
    if side := IMAGE_SIDES.get(told.get("imageQuality") or ""):
        told.setdefault("imageMaxDimensionPx", side)
    return fill_section(
        AgentSettings,
        told,
        here,
        id=name,
        name=own.get("name") or told["identity"].get("name") or name,
        workspace=_workspace(name, layers, chosen, here),
        model=model,
        fallbacks=fallbacks,
        aliases={body.alias: ref for ref, body in models.items() if body.alias},
        # What the agent's own entry says for all its models goes over what is said for one.
        model_params={ref: {**body.params, **(own.get("params") or {})} for ref, body in models.items() if body.params},
        thinking_default=own.get("thinkingDefault") or first.get("level"),
        thinking_shared=shared.get("thinkingDefault") or second.get("level"),
    )


def _merge_models(own: Free | None, shared: Free | None) -> Free:
    """What is said of single models, entry by entry; null takes a parameter away."""
    made = merge_raw(shared)
    for ref, body in merge_raw(own).items():
        below = made.get(ref, {})
        params = {**(below.get("params") or {}), **(body.get("params") or {})}
        made[ref] = {**merge_raw(body, below), "params": params}
    return made


def _workspace(name: str, layers: AgentLayers, chosen: str, here: ConfigPlace) -> str:
    own, shared = layers.own.get("workspace"), layers.shared.get("workspace") or ""
    if not own:
        usual = paths.locate_workspace(here.home)
        own = (shared or usual) if name == chosen else f"{shared}/{name}" if shared else f"{usual}-{name}"
    return here.folder(own)


def add_prompt(agent: AgentSettings, layers: AgentLayers, root: Mapping[str, Any], friendly: bool) -> AgentSettings:
    """The agent with what shapes its prompt and its memory; `root` are sections of the config as written."""
    own, shared, _ = layers
    messages = root.get("messages") or {}
    here = ConfigPlace("", {}, [])
    beat = fill_section(HeartbeatSettings, layers.merge("heartbeat"), here)
    prompt = fill_section(
        PromptSettings,
        {**root, "shared": shared, "subagents": layers.merge("subagents")},
        here,
        heartbeat=beat.prompt,
        heartbeat_every=beat.every,
        heartbeat_section=beat.section,
        friendly=friendly,
        tool_only=_tool_only(own.get("groupChat") or {}, messages),
    )
    limits = layers.merge("contextLimits")
    search = merge_deep(own.get("memorySearch"), shared.get("memorySearch"))
    memory = read_memory_options(search, limits, prompt.citations)
    most = limits.get("postCompactionMaxChars") or agent.excerpt_chars
    return msgspec.structs.replace(agent, prompt=prompt, memory=memory, excerpt_chars=most)


def _tool_only(own: Free, messages: Free) -> Names:
    """Chats whose replies go through the message tool only: visibleReplies, for groups over the one for all."""
    everywhere = messages.get("visibleReplies")
    shared = messages.get("groupChat") or {}
    group = own.get("visibleReplies") or shared.get("visibleReplies") or everywhere
    kinds = ("direct",) if everywhere == "message_tool" else ()
    return (*kinds, "group", "channel") if group == "message_tool" else kinds
