"""What the prompt is made from. Gathered once per run by `agent/plan/prompt`; the renderer looks at nothing else.

`StableFacts` is what sections above the cache boundary may use: it stays the same from turn to turn of a session and,
but for `mode`, `files` and what the model needs, from session to session. `PromptFacts` adds what belongs to this chat
and this run. The types keep a stable section from reading a live fact. Nothing here knows a config key.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from palinurus.core.text import normalize_breaks
from palinurus.patterns import compile_late

ReactionLevel: TypeAlias = Literal["", "minimal", "extensive"]
Citations: TypeAlias = Literal["auto", "on", "off"]
Delegation: TypeAlias = Literal["suggest", "prefer"]
Silence: TypeAlias = Literal["allow", "disallow"]
Warn: TypeAlias = Literal["off", "once", "always"]
# What `pal` in the run's own commands can do with this program: nothing, look, or all that it does for a person.
ProgramAccess: TypeAlias = Literal["", "look", "all"]
PromptMode: TypeAlias = Literal["full", "minimal", "none"]
HASHED = 12  # hex digits of an owner's id that are shown

# What a heartbeat asks when the config does not say. A fixed text of the specification: clients and models know it.
HEARTBEAT_PROMPT = (
    "Read HEARTBEAT.md if it exists (workspace context). Follow it strictly. Do not infer or repeat old tasks from "
    "prior chats. If nothing needs attention, reply HEARTBEAT_OK."
)


class PromptOptions(msgspec.Struct, frozen=True):
    """Per agent. Every field has the value it has when nobody configured anything."""

    owners: tuple[str, ...] = ()  # authorised senders as they are to be shown
    aliases: tuple[tuple[str, str], ...] = ()  # alias, provider/model
    citations: Citations = "auto"
    delegation: Delegation = "suggest"
    voice: str = ""  # what the voice settings ask of texts; "" when nothing is read aloud
    heartbeat: str = ""  # the heartbeat's prompt; "" where heartbeats are off or shall not be mentioned
    silent_group: Silence = "allow"
    warn: Warn = "always"  # say in the prompt that workspace files were shortened
    friendly: bool = True  # the tone some model families are asked for


class ToolFact(msgspec.Struct, frozen=True):
    name: str
    summary: str


class FileFact(msgspec.Struct, frozen=True):
    """A workspace file to inject. `truncated`: `text` is not the whole; `missing`: it says where it was expected."""

    name: str
    text: str
    truncated: bool = False
    missing: bool = False


class SkillFact(msgspec.Struct, frozen=True):
    """An eligible skill; `location` is the path of its SKILL.md as it is to be shown."""

    name: str
    description: str
    location: str


class DocsFact(msgspec.Struct, frozen=True):
    """Where the documentation and the source are. "" where there is none."""

    local: str = ""  # directory of the docs on this machine
    site: str = ""
    source: str = ""  # root of a checkout
    repository: str = ""
    mirror: str = ""
    community: str = ""
    hub: str = ""  # where skills are found
    settings: tuple[str, ...] = ()  # pages about the configuration, those that exist


class SandboxFact(msgspec.Struct, frozen=True):
    """Tools run in a container: how its world looks."""

    workspace: str  # the working directory inside
    access: str = "rw"  # of the agent's workspace: none, ro, rw
    mount: str = ""  # where that is seen inside
    elevated: bool = False  # exec may leave the sandbox
    browser: str = ""  # how the sandbox's browser is reached


class PromptContribution(msgspec.Struct, frozen=True):
    """What a provider adds for its models. Of our own sections it may replace these three and no other.

    None keeps our words, "" removes the section.
    """

    prefix: str = ""  # above the cache boundary
    suffix: str = ""  # below it
    interaction_style: str | None = None
    tool_call_style: str | None = None
    execution_bias: str | None = None
    always: bool = False  # the prefix stands also in a prompt of mode none: for models that get no other


class StableFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What stands above the boundary."""

    mode: PromptMode = "full"
    tools: tuple[ToolFact, ...] = ()
    workspace: str = ""
    folder: str = ""  # of the owner's, in which the session works instead
    project: tuple[FileFact, ...] = ()  # what that folder says to agents
    timezone: str = ""
    files: tuple[FileFact, ...] = ()
    pending: bool = False  # BOOTSTRAP.md waits for the first conversation
    skills: tuple[SkillFact, ...] = ()
    skills_left: int = 0  # eligible, but left out of the list for want of room
    docs: DocsFact = DocsFact()
    sandbox: SandboxFact | None = None
    knobs: PromptOptions = PromptOptions()
    contribution: PromptContribution = PromptContribution()
    tagged: bool = False  # the model writes its reasoning into the text, in tags
    message_only: bool = False  # what people see goes through the message tool only
    wake: bool = False  # a background command wakes the agent when it ends
    updates: bool = False  # the gateway tool can install a newer version


class PromptFacts(StableFacts, frozen=True, kw_only=True):
    """All of it."""

    agent: str = "main"
    host: str = ""
    os: str = ""
    python: str = ""
    repo: str = ""  # root of the repository the workspace lies in
    shell: str = ""
    model: str = ""
    default_model: str = ""
    level: str = "off"  # thinking
    reasoning: str = "off"  # is it shown?
    channel: str = ""
    capabilities: tuple[str, ...] | None = None  # of the channel; None: not known
    kind: str = "direct"  # direct, group, channel
    buttons: bool = False  # the channel shows inline buttons
    approvals: bool = False  # the channel asks for approvals itself
    reactions: ReactionLevel = ""
    inside: ProgramAccess = ""
    extra: str = ""  # context of a group or a sub-agent's task; a client's own system text


def select_stable_facts(facts: PromptFacts) -> StableFacts:
    """The stable half, which can be compared and kept."""
    return StableFacts(**{name: getattr(facts, name) for name in StableFacts.__struct_fields__})


def list_tool_names(facts: StableFacts) -> frozenset[str]:
    """The tools of this run, in lower case."""
    return frozenset(tool.name.lower() for tool in facts.tools)


def has_tool(facts: StableFacts, name: str) -> bool:
    """Is it one of this run's?"""
    return name in [tool.name.lower() for tool in facts.tools]


def strip_lines(text: str) -> str:
    """The text with one kind of line end, and no white space at line ends or around it."""
    return "\n".join([line.rstrip() for line in normalize_breaks(text).split("\n")]).strip()


# --- what is made of the configuration -------------------------------------------------------------------------------


def write_voice_hint(auto: str, limit: int = 0) -> str:
    """What to mind in texts that are read aloud; "" when none are."""
    when = {
        "always": "Every reply is read aloud.",
        "inbound": "Replies to voice messages are read aloud.",
        "tagged": "Only text inside [[tts:text]]…[[/tts:text]] is read aloud; use it when a spoken reply is wanted.",
    }.get(auto)
    if when is None:
        return ""
    short = f" Keep what is spoken under {limit} characters." if limit else ""
    return f"{when} Write it to be heard: whole sentences, no tables, no code, no addresses.{short}"


def display_owners(ids: Iterable[str], display: str = "raw", secret: str = "") -> tuple[str, ...]:
    """Owner ids as the prompt shows them: as they are, or (display "hash") unreadable but recognisable."""
    clean = dict.fromkeys(i.strip() for i in ids)
    clean.pop("", None)
    clean.pop("*", None)  # "everybody" names nobody
    return tuple(_hash(i, secret) for i in clean) if display == "hash" else tuple(clean)


def _hash(ident: str, secret: str) -> str:
    return hmac.new(secret.encode(), ident.encode(), hashlib.sha256).hexdigest()[:HASHED]


class ChannelSurface(msgspec.Struct, frozen=True):
    """What the prompt has to know about a channel. `approvals`: the channel asks for them itself, with buttons or
    cards."""

    buttons: bool = False
    approvals: bool = False
    reactions: ReactionLevel = ""

    @property
    def capabilities(self) -> tuple[str, ...]:
        """The words of the runtime line."""
        names = {"inlineButtons": self.buttons, "approvals": self.approvals, "reactions": bool(self.reactions)}
        return tuple(name for name, there in names.items() if there)


SURFACES: dict[str, ChannelSurface] = {
    "telegram": ChannelSurface(buttons=True, approvals=True, reactions="minimal"),
    "signal": ChannelSurface(reactions="minimal"),
    "discord": ChannelSurface(buttons=True, approvals=True),
    "slack": ChannelSurface(buttons=True, approvals=True),
    "webchat": ChannelSurface(approvals=True),
}
_LEVELS: dict[str, ReactionLevel] = {"off": "", "ack": "", "minimal": "minimal", "extensive": "extensive"}


def find_surface(channel: str, config: Mapping[str, Any]) -> ChannelSurface:
    """The row of a channel, overlaid with `reactionLevel` and `capabilities` of its config."""
    found = SURFACES.get(channel, ChannelSurface())
    level = config.get("reactionLevel")
    if isinstance(level, str) and level in _LEVELS:
        found = msgspec.structs.replace(found, reactions=_LEVELS[level])
    wanted = config.get("capabilities")
    if isinstance(wanted, list):
        found = msgspec.structs.replace(found, buttons="inlineButtons" in wanted)
    elif isinstance(wanted, Mapping) and "inlineButtons" in wanted:
        found = msgspec.structs.replace(found, buttons=wanted["inlineButtons"] not in ("off", False))
    return found


# --- what families of models are told besides, whoever serves them; a vendor may bring its own (`Vendor.prompt`) -----

_GPT5 = """\
<persona_latch>
Keep the persona and tone of the workspace files from the first word to the last, also after long tool work. Task
instructions change what you do, not who you are.
</persona_latch>
<execution_policy>
Prefer doing to describing. When lookups do not depend on each other, make them together; when one needs another's
result, wait for it. If context is missing that a tool can supply, get it; if only the person can supply it, ask one
precise question, or go on with a stated assumption where a mistake can be undone.
</execution_policy>
<tool_discipline>
Use a tool whenever it makes the answer more certain. Do not stop at the first hit that looks right when one more
cheap call would settle it, and do not repeat a call that cannot tell anything new. In a terminal keep commands short
and bounded, read files with the file tools, and leave no process behind that is not needed.
</tool_discipline>
<output_contract>
Answer in the form and length that was asked for. Be brief: result first, then what is needed to trust it. No
restating of the question, no closing offers, no filler.
</output_contract>
<completion_contract>
The task is done when every item asked for is delivered or marked as blocked with what is missing. Before finishing
check the result against the request: right, grounded in what you saw, in the right form, and safe to act on.
</completion_contract>"""

_FRIENDLY = """\
## Interaction Style
Be warm, attentive and at ease, like a colleague who likes the work. Take the person's side without flattery, show
feeling where the moment has some, keep humour light. Warmth is in the choice of words, not in more of them."""

_FAMILIES: tuple[tuple[re.Pattern[str], str, str], ...] = (
    (compile_late(r"(?:^|[/.:~-])gpt-5(?:$|[^0-9])", re.IGNORECASE), _GPT5, _FRIENDLY),
)


def find_family_contribution(model: str, friendly: bool = True) -> PromptContribution:
    """What the family of this model id is told; empty for families without an entry."""
    for pattern, prefix, style in _FAMILIES:
        if pattern.search(model):
            return PromptContribution(prefix=prefix, interaction_style=style if friendly else None)
    return PromptContribution()
