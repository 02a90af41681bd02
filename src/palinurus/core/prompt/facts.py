"""What the prompt is made from. Gathered once per run by `agent/facts`; the renderer looks at nothing else.

`Fixed` is what sections above the cache boundary may use: it stays the same from turn to turn of a session and,
but for `mode`, `files` and what the model needs, from session to session. `Facts` adds what belongs to this chat
and this run. The types keep a stable section from reading a live fact.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

import msgspec

from palinurus.core.prompt.knobs import PromptOptions

PromptMode: TypeAlias = Literal["full", "minimal", "none"]


class ToolFact(msgspec.Struct, frozen=True):
    name: str
    summary: str


class FileFact(NamedTuple):
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
    acp: bool = False  # other agents' runtimes can be spawned


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
    reactions: Literal["", "minimal", "extensive"] = ""
    extra: str = ""  # context of a group or a sub-agent's task; a client's own system text


_FIXED = StableFacts.__struct_fields__


def select_stable_facts(facts: PromptFacts) -> StableFacts:
    """The stable half, which can be compared and kept."""
    return StableFacts(**{name: getattr(facts, name) for name in _FIXED})
