"""What a workspace gives to prompts and runs: bootstrap files, skills, variables for skills.

The supplier of `agent/plan/prompt`. Cheap when nothing changed: one stat for each file and folder it knows. `ready`
is for runs (hooks, the once-only warning, slow looks in a thread); calling the sources only looks.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import msgspec

from palinurus.config import paths
from palinurus.config.sections.session import SkillSettings
from palinurus.config.settings import AgentSettings, Settings
from palinurus.core.prompt import bootstrap
from palinurus.core.prompt.bootstrap import BootstrapFile, BootstrapInjection, BootstrapWeight
from palinurus.core.prompt.facts import FileFact, SkillFact
from palinurus.core.skills.offer import SkillEnvironment, SkillOffer, SkillOverride, list_unmet_needs, offer_skills
from palinurus.core.skills.skill import Skill
from palinurus.core.types.keys import SessionKey
from palinurus.core.types.tool import SkillVariables
from palinurus.patterns import compile_late
from palinurus.plugins.hooks import Hooks
from palinurus.workspace.discovery import SkillScan, is_unchanged, list_skill_roots, scan_skills
from palinurus.workspace.texts import CAP, FileIdentity, FileText, FileTexts, identify_file

log = logging.getLogger(__name__)

POINT = "agent:bootstrap"
LOOK = 0.5  # seconds between two looks at the folders of skills
KEPT = 256  # sessions whose hooks' files and warnings are remembered
_NAME = compile_late(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
# Variables that make programs load or run something: no skill gets to set them.
_REFUSED = compile_late(
    r"(?:LD_|DYLD_|GIT_|PYTHON|PERL5|RUBY|NODE_OPTIONS|NPM_CONFIG|BASH_|ENV$|IFS$|PATH$|HOME$|SHELL|PALINURUS_|PROMPT_)",
    re.IGNORECASE,
)
# Keys that count as set when nobody wrote them.
_SET = frozenset(("browser.enabled", "browser.evaluateEnabled"))


class SkillMachine:
    """What gates ask about this machine: programs, variables, config keys. `path` is the PATH that the children of
    tools have; answers are kept until one of its directories changes."""

    def __init__(self, environ: Mapping[str, str], path: str, raw: Mapping[str, Any], settings: SkillSettings) -> None:
        self._environ = environ
        self._raw = raw
        self._settings = settings
        self._folders = tuple(dict.fromkeys(p for p in path.split(os.pathsep) if os.path.isabs(p)))
        self._seen: tuple[FileIdentity | None, ...] = ()
        self._known: dict[str, bool] = {}
        self._generation = 0
        self._entries = {
            key: SkillOverride(entry.enabled, frozenset(n for n, v in entry.env.items() if v), bool(entry.key))
            for key, entry in settings.entries.items()
        }

    def world(self, agent: AgentSettings) -> SkillEnvironment:
        """As an agent's skills see it."""
        bundled = self._settings.bundled
        return SkillEnvironment(
            sys.platform,
            self.has,
            lambda name: bool(self._environ.get(name)),
            self.config,
            entries=self._entries,
            bundled=None if bundled is None else frozenset(bundled),
            allowed=None if agent.skills is None else frozenset(agent.skills),
        )

    def generation(self) -> int:
        """A number that grows when programs came or went."""
        now = tuple(identify_file(folder) for folder in self._folders)
        if now != self._seen:
            self._seen = now
            self._known.clear()
            self._generation += 1
        return self._generation

    def has(self, program: str) -> bool:
        """Is there such a program? A path is none: gates name programs."""
        if program not in self._known:
            self._known[program] = "/" not in program and any(
                _runs(os.path.join(folder, program)) for folder in self._folders
            )
        return self._known[program]

    def config(self, path: str) -> bool:
        """Is this key set to something?"""
        at: Any = self._raw
        for part in path.split("."):
            if not isinstance(at, Mapping) or part not in at:
                return path in _SET
            at = at[part]
        return bool(at)


def _runs(path: str) -> bool:
    try:
        return os.path.isfile(path) and os.access(path, os.X_OK)
    except ValueError:  # NUL in a name
        return False


class HeldFiles(Protocol):
    """`tools/persona.py`: the agent's own files as they should be while commands run."""

    def get_held(self, workspace: str, name: str) -> tuple[bytes | None] | None: ...

    def put_back(self, workspace: str) -> bool: ...


class UnheldFiles:
    """Where no commands run."""

    def get_held(self, workspace: str, name: str) -> tuple[bytes | None] | None:
        return None

    def put_back(self, workspace: str) -> bool:
        return False


class WorkspaceSupply(NamedTuple):
    """What goes into a prompt."""

    files: tuple[FileFact, ...] = ()
    pending: bool = False
    skills: tuple[SkillFact, ...] = ()
    skills_left: int = 0


class SkillStock(msgspec.Struct, frozen=True):
    """The skills of an agent as they stand. `waiting`: found, with the reasons why they cannot be used."""

    generation: int
    found: SkillScan
    ready: tuple[Skill, ...]
    waiting: tuple[tuple[Skill, tuple[str, ...]], ...]
    offer: SkillOffer


class WorkspaceWeights(msgspec.Struct, frozen=True):
    """Sizes, for /context, /status and doctor."""

    files: tuple[BootstrapWeight, ...]
    limit: int
    total: int
    skills: SkillOffer
    broken: int


class PromptSources:
    """One per configuration. `raw` is the config as written (gates ask for its keys), `path` the PATH of tools.

    With a clock (`seconds`) the folders of skills are looked at twice a second at most, however many runs begin.
    `files` knows what commands that still run have changed without leave: a prompt never shows that.
    """

    def __init__(
        self,
        settings: Settings,
        environ: Mapping[str, str],
        raw: Mapping[str, Any] | None = None,
        hooks: Hooks | None = None,
        path: str = "",
        seconds: Callable[[], float] | None = None,
        files: HeldFiles | None = None,
    ) -> None:
        self._seconds = seconds
        self._files = files or UnheldFiles()
        self._looked: dict[str, float] = {}
        self._settings = settings
        self._environ = environ
        self._hooks = hooks
        self._user = paths.find_user_home(environ)
        self._machine = SkillMachine(environ, path or environ.get("PATH", ""), raw or {}, settings.skills)
        self._texts = FileTexts()
        self._injections: dict[tuple[Any, ...], tuple[Any, BootstrapInjection]] = {}
        self._stocks: dict[str, SkillStock] = {}
        self._replaced: dict[str, tuple[BootstrapFile, ...]] = {}
        self._told: dict[str, tuple[frozenset[str], int]] = {}
        default = settings.agents[settings.default_agent].prompt
        self._beats = default.heartbeat_every > 0 and default.heartbeat_section

    def __call__(self, agent: AgentSettings, key: SessionKey) -> WorkspaceSupply:
        """For a prompt of this session."""
        injected = self._injection(agent, key)
        files = injected.files
        if self._quiet(agent, key):
            files = tuple(msgspec.structs.replace(file, truncated=False) for file in files)
        shown = self.stock(agent).offer
        return WorkspaceSupply(files, injected.pending, shown.skills, shown.left)

    async def ready(self, agent: AgentSettings, key: SessionKey) -> None:
        """Before a run: look for changed skills without holding the loop up, call the hooks, count the warning."""
        if self._stale(agent):
            self._files.put_back(agent.workspace)
            taken = await asyncio.to_thread(self._take, agent)
            # whoever changes skills while they are read has them found next time, as they should be
            if not self._files.put_back(agent.workspace) or agent.id not in self._stocks:
                self._stocks[agent.id] = taken
        if self._hooks is not None and self._hooks.has(POINT):
            await self._hook(self._hooks, agent, key)
        if agent.prompt.truncation_warning == "once":
            cut = frozenset(file.name for file in self._injection(agent, key).files if file.truncated)
            before, count = self._told.get(str(key), (cut, 0))
            _keep(self._told, str(key), (cut, count + 1 if before == cut else 1))

    def report(self, agent: AgentSettings, key: SessionKey) -> WorkspaceWeights:
        """What the files and the list of skills weigh."""
        stock = self.stock(agent)
        weights = self._injection(agent, key).weights
        return WorkspaceWeights(
            weights, agent.bootstrap_chars, agent.bootstrap_total, stock.offer, broken=len(stock.found.broken)
        )

    def stock(self, agent: AgentSettings) -> SkillStock:
        """The agent's skills as they stand now."""
        if self._stale(agent):
            self._stocks[agent.id] = self._take(agent)
        return self._stocks[agent.id]

    def list_variables(self, agent: AgentSettings) -> tuple[SkillVariables, ...]:
        """What the config gives to commands of this agent's skills. What the environment has already goes before;
        nothing of this belongs into a prompt.
        """
        made: list[SkillVariables] = []
        for skill in self.stock(agent).ready if self._settings.skills.entries else ():
            entry = self._settings.skills.entries.get(skill.key)
            if entry is None:
                continue
            keyed = {skill.primary_env: entry.key} if skill.primary_env and entry.key else {}
            env = {
                name: self._environ.get(name) or value.reveal()
                for name, value in {**keyed, **entry.env}.items()
                if _NAME.fullmatch(name) and not _REFUSED.match(name)
            }
            if env:
                made.append(SkillVariables(os.path.realpath(skill.path), env))
        return tuple(made)

    # files

    def _raws(self, agent: AgentSettings, key: SessionKey) -> tuple[tuple[str, str, FileText], ...]:
        names = bootstrap.list_bootstrap_names(key.kind, self._beats)
        return tuple((name, agent.workspace, self._text(agent.workspace, name)) for name in names)

    def _text(self, workspace: str, name: str) -> FileText:
        held = self._files.get_held(workspace, name)
        if held is None:
            return self._texts.read(workspace, name)
        return FileText(None if held[0] is None else held[0][:CAP].decode("utf-8", "replace"))

    def _injection(self, agent: AgentSettings, key: SessionKey) -> BootstrapInjection:
        hooked = self._replaced.get(str(key))
        given: tuple[Any, ...] = self._raws(agent, key) if hooked is None else hooked
        slot = (agent.id, key.kind in ("subagent", "cron") if hooked is None else str(key))
        kept = self._injections.get(slot)
        if kept is not None and kept[0] == given:
            return kept[1]
        found = map(_raw, given) if hooked is None else given
        made = bootstrap.inject_files(found, agent.bootstrap_chars, agent.bootstrap_total)
        for file in filter(lambda weight: weight.cut, made.weights):
            log.info("%s: %s characters, %s in the prompt (%s)", file.path, file.raw, file.injected, file.state)
        _keep(self._injections, slot, (given, made))
        return made

    async def _hook(self, hooks: Hooks, agent: AgentSettings, key: SessionKey) -> None:
        raws = tuple(map(_raw, self._raws(agent, key)))
        changes = await hooks.modify(
            POINT,
            {
                "workspaceDir": agent.workspace,
                "bootstrapFiles": bootstrap.to_hook_payload(raws),
                "sessionKey": str(key),
                "agentId": agent.id,
            },
        )
        given = bootstrap.from_hook_payload(changes.get("bootstrapFiles"))
        if given is None:
            self._replaced.pop(str(key), None)
        else:
            _keep(self._replaced, str(key), given)

    def _quiet(self, agent: AgentSettings, key: SessionKey) -> bool:
        """Was the warning given, which is wanted once only?"""
        return agent.prompt.truncation_warning == "once" and self._told.get(str(key), (frozenset(), 0))[1] > 1

    # skills

    def _stale(self, agent: AgentSettings) -> bool:
        stock = self._stocks.get(agent.id)
        if self._seconds is not None and stock is not None:
            now = self._seconds()
            if now - self._looked.get(agent.id, -LOOK) < LOOK:
                return False
            self._looked[agent.id] = now
        return stock is None or stock.generation != self._machine.generation() or not is_unchanged(stock.found)

    def _take(self, agent: AgentSettings) -> SkillStock:
        generation = self._machine.generation()
        limits = self._settings.skills
        found = scan_skills(list_skill_roots(self._settings, agent, self._user), limits)
        world = self._machine.world(agent)
        judged = [(skill, list_unmet_needs(skill, world)) for skill in found.skills]
        ready = tuple(skill for skill, why in judged if not why)
        waiting = tuple((skill, why) for skill, why in judged if why)
        shown = offer_skills(ready, self._user, agent.skills_chars or limits.chars, limits.listed)
        return SkillStock(generation, found, ready, waiting, offer=shown)


def _raw(given: tuple[str, str, FileText]) -> BootstrapFile:
    name, workspace, found = given
    return BootstrapFile(name, f"{workspace}/{name}", found.text, found.refused)


def _keep(kept: dict[Any, Any], key: Any, value: Any) -> None:
    kept.pop(key, None)
    while len(kept) >= KEPT:
        kept.pop(next(iter(kept)))
    kept[key] = value
