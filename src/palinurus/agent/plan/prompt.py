"""The one facade of the system prompt: settings, tools and the occasion in, prompt out.

Runs, previews and exports all come here, so that what is shown is what is sent. Looks at the world once, when it is
made (host, repository, docs); what workspace files and skills there are comes from a `PromptSupply`.
"""

from __future__ import annotations

import glob
import itertools
import os
import platform
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec

import palinurus
from palinurus.agent.plan.runplan import ModelCandidate
from palinurus.config.sections.agents import PromptSettings
from palinurus.config.settings import AgentSettings, Settings
from palinurus.config.zones import detect_timezone
from palinurus.core.policy.audience import is_owners_turn
from palinurus.core.prompt import facts
from palinurus.core.prompt import facts as words
from palinurus.core.prompt.bootstrap import hide_memory
from palinurus.core.prompt.facts import (
    DocsFact,
    FileFact,
    ProgramAccess,
    PromptContribution,
    PromptFacts,
    PromptMode,
    PromptOptions,
    SandboxFact,
    SkillFact,
    ToolFact,
    find_surface,
)
from palinurus.core.prompt.render import render_prompt
from palinurus.core.structured import write_form_request
from palinurus.core.types.inbound import Inbound
from palinurus.core.types.keys import SessionKey
from palinurus.core.types.model import ModelSpec, Prompt
from palinurus.core.types.sandbox import SandboxKind
from palinurus.core.types.tool import Tool
from palinurus.plugins.checkout import find_update_source
from palinurus.providers.catalog import Catalog
from palinurus.sessions.record import SessionRecord
from palinurus.workspace.folders import find_repository

# What can be reached from everywhere; a field is filled in when the thing exists.
LINKS = DocsFact(hub="https://clawhub.ai")  # skills in the format we read
SETTINGS_PAGES = ("config.md",)
# The names that packages give to addresses -> what they are to us.
PROJECT_LINKS = {
    "documentation": "site", "docs": "site", "repository": "repository", "source": "repository",
    "docs mirror": "mirror", "community": "community", "discord": "community",
}  # fmt: skip
SHELL = "sh"  # what exec runs commands with


class PromptSupply(msgspec.Struct, frozen=True):
    """What the workspace gives to a prompt."""

    files: tuple[FileFact, ...] = ()
    pending: bool = False  # BOOTSTRAP.md waits for the first conversation
    skills: tuple[SkillFact, ...] = ()
    skills_left: int = 0


PromptSupplier: TypeAlias = Callable[[AgentSettings, SessionKey], PromptSupply]


def supply_nothing(agent: AgentSettings, key: SessionKey) -> PromptSupply:
    """No files, no skills."""
    return PromptSupply()


class PromptOccasion(msgspec.Struct, frozen=True):
    """One run, as far as its prompt is concerned."""

    key: SessionKey
    model: ModelSpec
    level: str = "off"
    channel: str = ""
    kind: str = "direct"
    reasoning: str = "off"
    extra: str = ""
    mode: PromptMode | None = None  # None: as the session key says
    sandbox: SandboxFact | None = None
    pushed: bool = True  # replies are posted on a channel; False: a client reads them itself
    shared: bool = False  # others than the owner see what comes of it
    inside: ProgramAccess = ""  # what `pal` in its commands can do
    continued: bool = False  # the turn follows a finished answer
    folder: str = ""  # of the owner's, in which it works; "": in the agent's workspace
    project: tuple[FileFact, ...] = ()  # what that folder says to agents


def make_occasion(
    inbound: Inbound, key: SessionKey, choice: ModelCandidate, session: SessionRecord, *, cell: SandboxKind = "docker"
) -> PromptOccasion:
    """The occasion of a message. `options.promptMode` is the program's own; no face hands it on from outside."""
    form = inbound.options.answer
    return PromptOccasion(
        key,
        choice.model,
        choice.level.level,
        inbound.target.channel,
        kind=inbound.kind,
        reasoning=session.reasoningLevel or "off",
        extra="\n\n".join(filter(None, (inbound.options.system, write_form_request(form) if form else ""))),
        mode=inbound.options.prompt_mode,
        pushed=inbound.push,
        shared=inbound.shared,
        inside=describe_access(inbound, cell),
    )


def describe_access(inbound: Inbound, kind: SandboxKind) -> ProgramAccess:
    """What `pal` in a turn's commands can do, as `tools/commands/exec.py` sees to it."""
    if kind == "docker" or not is_owners_turn(inbound):
        return ""
    return "all" if kind == "none" else "look"


def choose_prompt_mode(key: SessionKey) -> PromptMode:
    """Sub-agents and cron jobs get the small prompt. Not for users to choose."""
    return "minimal" if key.kind in ("subagent", "cron") else "full"


class PromptBuilder:
    """Makes prompts. One per configuration."""

    def __init__(
        self,
        settings: Settings,
        catalog: Catalog,
        supply: PromptSupplier = supply_nothing,
        *,
        speech: Callable[[str], str] = lambda agent: "off",
    ) -> None:
        """`speech`: which replies of an agent are read aloud. Where nobody can speak no prompt speaks of it, whatever
        is configured."""
        self._speech = speech
        self._settings = settings
        self._catalog = catalog
        self._supply = supply
        self._host = PromptFacts(
            docs=(docs := find_documentation()),
            updates=bool(find_update_source(docs.source)),
            host=platform.node(),
            os=f"{platform.system()} ({platform.machine()})",
            python=platform.python_version(),
            shell=SHELL,
            timezone=detect_timezone(catalog.environ),
        )
        self._bases = {ident: self._base(agent) for ident, agent in settings.agents.items()}

    def prompt(self, agent: str, tools: Iterable[Tool], now: PromptOccasion) -> Prompt:
        """What a run of this agent with these tools sends on this occasion."""
        return render_prompt(self.facts(agent, tools, now))

    def facts(self, agent: str, tools: Iterable[Tool], now: PromptOccasion) -> PromptFacts:
        """All the prompt is made from."""
        settings, base = self._settings.agents[agent], self._bases[agent]
        seen = find_surface(now.channel, self._settings.channels.get(now.channel, {}))
        supplied = self._supply(settings, now.key)
        files = hide_memory(supplied.files) if now.shared else supplied.files
        skipped = settings.injection == "never" or (settings.injection == "continuation-skip" and now.continued)
        offered = tuple(
            [
                ToolFact(tool.name, take_first_sentence(tool.description))
                for tool in tools
                if not (tool.idle or tool.deferred)
            ]
        )
        return msgspec.structs.replace(
            base,
            knobs=self._voiced(base.knobs, settings),
            mode=now.mode or now.model.compat.get("promptMode") or choose_prompt_mode(now.key),
            tools=offered,
            files=() if skipped else files,
            pending=supplied.pending,
            skills=supplied.skills,
            skills_left=supplied.skills_left,
            sandbox=now.sandbox,
            contribution=self._contribution(now.model, base.knobs),
            tagged=bool(now.model.compat.get("taggedReasoning")),
            message_only=now.pushed
            and now.kind in settings.prompt.tool_only
            and any(tool.name == "message" for tool in offered),
            model=str(now.model.ref),
            level=now.level,
            reasoning=now.reasoning,
            channel=now.channel,
            capabilities=seen.capabilities,
            kind=now.kind,
            buttons=seen.buttons,
            approvals=seen.approvals,
            reactions=seen.reactions,
            extra=now.extra,
            inside=now.inside,
            **_place(now),
        )

    def _base(self, agent: AgentSettings) -> PromptFacts:
        return msgspec.structs.replace(
            self._host,
            agent=agent.id,
            workspace=agent.workspace,
            timezone=agent.user_timezone or self._host.timezone,
            repo=agent.prompt.repo_root or find_repository(agent.workspace),
            default_model=str(self._catalog.default(agent).ref),
            knobs=resolve_knobs(self._settings, agent),
            wake=self._settings.tools.exec.process.notify,
        )

    def _voiced(self, knobs: PromptOptions, agent: AgentSettings) -> PromptOptions:
        """Asked anew each time: /tts may have switched it."""
        mode = self._speech(agent.id)
        if mode == "off":
            return knobs
        return msgspec.structs.replace(knobs, voice=words.write_voice_hint(mode, agent.speech.long))

    def _contribution(self, model: ModelSpec, set_to: PromptOptions) -> PromptContribution:
        vendor = self._catalog.vendor(model.ref.provider)
        if vendor is not None and vendor.prompt is not None:
            return vendor.prompt(model)
        return facts.find_family_contribution(model.ref.model, set_to.friendly)


def _place(now: PromptOccasion) -> dict[str, Any]:
    """What is other where the session works in a folder of the owner's."""
    if not now.folder:
        return {}
    return {"folder": now.folder, "project": now.project, "repo": find_repository(now.folder)}


def resolve_knobs(settings: Settings, agent: AgentSettings) -> PromptOptions:
    """What the configuration says about this agent's prompts, as the renderer takes it."""
    own = agent.prompt
    return msgspec.convert(
        {
            "owners": words.display_owners(own.owners, own.owner_display, own.owner_secret.reveal() or settings.home),
            "aliases": tuple(sorted(agent.aliases.items())),
            "citations": own.citations,
            "delegation": own.delegation,
            "heartbeat": _heartbeat(settings, agent, own),
            "silent_group": own.silent_group,
            "warn": own.truncation_warning,
            "friendly": own.friendly,
        },
        PromptOptions,
    )


def _heartbeat(settings: Settings, agent: AgentSettings, own: PromptSettings) -> str:
    """Heartbeats are the default agent's."""
    there = agent.id == settings.default_agent and own.heartbeat_every > 0 and own.heartbeat_section
    return (own.heartbeat or words.HEARTBEAT_PROMPT) if there else ""


@lru_cache(512)  # of every tool, with every turn
def take_first_sentence(description: str) -> str:
    """The first sentence of a tool's description."""
    return description.strip().split("\n", 1)[0].split(". ")[0].rstrip(".")


def find_documentation(package: str = os.path.dirname(os.path.abspath(palinurus.__file__))) -> DocsFact:
    """Docs and source of this very installation: a checkout's own, or those of the wheel, besides what is public."""
    root = os.path.dirname(os.path.dirname(package))
    checkout = os.path.isdir(os.path.join(root, "docs")) and os.path.isfile(os.path.join(root, "pyproject.toml"))
    links = LINKS if checkout else read_project_links(package)
    local = os.path.join(root if checkout else package, "docs")
    if not os.path.isdir(local):
        return links
    pages = tuple(os.path.join(local, page) for page in SETTINGS_PAGES if os.path.isfile(os.path.join(local, page)))
    return msgspec.structs.replace(links, local=local, source=root if checkout else "", settings=pages)


def read_project_links(package: str) -> DocsFact:
    """Where an installed package says that docs, source and people are (Project-URL of its METADATA). One that says
    nothing of its source has it beside it: it is Python."""
    found: dict[str, str] = {}
    for file in glob.glob(os.path.join(glob.escape(os.path.dirname(package)), "palinurus-*.dist-info", "METADATA")):
        with open(file, encoding="utf-8", errors="replace") as lines:  # our own
            for line in itertools.takewhile(str.strip, lines):  # the headers
                name, _, address = line.removeprefix("Project-URL:").partition(",")
                if line.startswith("Project-URL:") and (field := PROJECT_LINKS.get(name.strip().lower())):
                    found.setdefault(field, address.strip())
    return msgspec.structs.replace(LINKS, **{"repository": package, **found})
