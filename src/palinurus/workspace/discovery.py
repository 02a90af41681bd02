"""Where skills lie, and what is found there. Six roots, and those of plugins; of one name the highest root's is taken.

A skill is a folder with a SKILL.md, in the root or in a group folder in it. Links must lead into their own root (or
where the config allows). Nothing here runs anything of a skill.
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from palinurus import late
from palinurus.beneath import resolve_beneath
from palinurus.config.sections.session import SkillSettings
from palinurus.config.settings import AgentSettings, Settings
from palinurus.core.skills.offer import BUNDLED_SOURCE
from palinurus.core.skills.skill import SKILL_FILE, BrokenSkill, Skill, parse_skill
from palinurus.plugins.manifest import list_skill_folders
from palinurus.workspace.texts import FileIdentity, identify_file, load_text

if TYPE_CHECKING:
    from palinurus.workspace.install.packages import InstalledSkills

_SKIPPED = frozenset(("node_modules", "__pycache__"))
INSTALLED_SOURCE = "installed"
LOCK = ".lock.json"  # what was installed, by hash (`install/packages.py`)
ACCEPT = "look at it, then `pal skills accept {0}`, or install it again"


class SkillRoot(msgspec.Struct, frozen=True):
    """A directory of skills. `source` is what people are told; `within` is what links in it may not leave, if not the
    directory itself: in a workspace, where commands can make `skills` a link, the workspace."""

    source: str
    path: str
    within: str = ""


class SkillScan(msgspec.Struct, frozen=True):
    """What a look at all roots gave. `watched`: nothing changed while all of these are the same."""

    skills: tuple[Skill, ...]  # one of each name, by name
    broken: tuple[BrokenSkill, ...]
    shadowed: tuple[Skill, ...]  # a higher root has one of that name
    watched: tuple[tuple[str, FileIdentity | None], ...]


def locate_bundled_skills() -> str:
    """The skills that come with the program."""
    return os.path.join(os.path.dirname(__file__), "skills")


def locate_installed_skills(home: str) -> str:
    """Where `pal skills install` puts them."""
    return os.path.join(home, "skills")


def list_skill_roots(settings: Settings, agent: AgentSettings, user: str) -> tuple[SkillRoot, ...]:
    """The roots of an agent, the highest first. `user` is the user's home directory."""
    return (
        SkillRoot("workspace", os.path.join(agent.workspace, "skills"), agent.workspace),
        SkillRoot("workspace .agents", os.path.join(agent.workspace, ".agents", "skills"), agent.workspace),
        SkillRoot("personal .agents", os.path.join(user, ".agents", "skills")),
        SkillRoot(INSTALLED_SOURCE, locate_installed_skills(settings.home)),
        SkillRoot(BUNDLED_SOURCE, locate_bundled_skills()),
        *(SkillRoot("extra", path) for path in settings.skills.extra),
        *(SkillRoot(f"plugin {ident}", path) for ident, path in list_skill_folders(settings)),
    )


def scan_skills(where: tuple[SkillRoot, ...], limits: SkillSettings) -> SkillScan:
    """All skills of these roots. Never raises."""
    taken: dict[str, Skill] = {}
    broken: list[BrokenSkill] = []
    shadowed: list[Skill] = []
    watched: list[tuple[str, FileIdentity | None]] = []
    reach = _WalkLimits(limits.targets, limits.candidates, limits.loaded, limits.file_bytes)
    for root in where:
        changed = _find_changed(root, watched) if root.source == INSTALLED_SOURCE else {}
        look = _look_at_bundled(root, reach) if root.source == BUNDLED_SOURCE else _look_at(root, reach)
        watched += look.watched
        for found in look.skills:
            if isinstance(found, Skill) and (why := changed.get(os.path.basename(os.path.dirname(found.path)))):
                found = BrokenSkill(found.name, found.path, root.source, f"{why}: {ACCEPT.format(found.name)}")
            if isinstance(found, BrokenSkill):
                broken.append(found)
            elif taken.setdefault(found.name, found) is not found:
                shadowed.append(found)
    ordered = tuple(taken[name] for name in sorted(taken))
    return SkillScan(ordered, tuple(broken), tuple(shadowed), tuple(watched))


class _RootLook(msgspec.Struct, frozen=True):
    """What one root holds, and of what that is true while it is the same."""

    skills: tuple[Skill | BrokenSkill, ...]
    watched: tuple[tuple[str, FileIdentity | None], ...]


class _WalkLimits(msgspec.Struct, frozen=True):
    """What of the settings matters to a walk."""

    targets: tuple[str, ...]
    candidates: int
    loaded: int
    file_bytes: int


def _look_at(root: SkillRoot, limits: _WalkLimits) -> _RootLook:
    watched: list[tuple[str, FileIdentity | None]] = []
    skills = tuple(_Walk(root, limits, watched).skills())
    return _RootLook(skills, tuple(watched))


_read_bundled = lru_cache(1)(_look_at)  # those of the program, which every agent has: reading them takes 15 ms


def _look_at_bundled(root: SkillRoot, limits: _WalkLimits) -> _RootLook:
    if is_unchanged(found := _read_bundled(root, limits)):
        return found
    _read_bundled.cache_clear()
    return _read_bundled(root, limits)


def _find_changed(root: SkillRoot, watched: list[tuple[str, FileIdentity | None]]) -> dict[str, str]:
    """Installed skills that are not as they were pinned: somebody else than `pal skills` wrote there."""
    lock = os.path.join(root.path, LOCK)
    watched.append((lock, identify_file(lock)))
    if not os.path.exists(lock):
        return {}
    place: InstalledSkills = late.load_part("installed-skills")(root.path)
    for name in place.pins():
        for folder, _, files in os.walk(os.path.join(root.path, name)):
            paths = [folder, *(os.path.join(folder, file) for file in files)]
            watched += [(path, identify_file(path)) for path in paths]
    return place.drift()


def is_unchanged(found: SkillScan | _RootLook) -> bool:
    """Is everything as it was then?"""
    return all(identify_file(path) == seen for path, seen in found.watched)


class _Walk:
    """One walk through one root."""

    def __init__(self, root: SkillRoot, limits: _WalkLimits, watched: list[tuple[str, FileIdentity | None]]) -> None:
        self._root = root
        self._limits = limits
        self._watched = watched
        self._allowed = (root.within or root.path, *limits.targets)
        self._left = limits.candidates

    def skills(self) -> list[Skill | BrokenSkill]:
        """What the root holds, by folder name; no more than the limit."""
        if os.path.lexists(os.path.join(self._root.path, SKILL_FILE)):  # the root is itself one skill
            self._watch(self._root.path)
            return [self._load(self._root.path)]
        made: list[Skill | BrokenSkill] = []
        for folder in self._folders(self._root.path):
            if os.path.lexists(os.path.join(folder, SKILL_FILE)):
                made.append(self._load(folder))
            elif self._contained(folder):
                made += [self._load(f) for f in self._folders(folder) if os.path.lexists(os.path.join(f, SKILL_FILE))]
        good = [one for one in made if isinstance(one, Skill)]
        over = {id(one) for one in good[self._limits.loaded :]}
        return [one for one in made if id(one) not in over]

    def _watch(self, path: str) -> None:
        self._watched.append((path, identify_file(path)))

    def _folders(self, path: str) -> list[str]:
        """The folders in a folder, by name. Each counts as a candidate."""
        self._watch(path)
        try:
            with os.scandir(path) as entries:
                names = sorted(e.name for e in entries if e.name[0] != "." and e.name not in _SKIPPED and _folder(e))
        except OSError:
            return []
        names = names[: self._left]
        self._left -= len(names)
        return [os.path.join(path, name) for name in names]

    def _contained(self, path: str) -> str:
        """The allowed folder it lies in; "" if none."""
        return next((base for base in self._allowed if resolve_beneath(base, path) is not None), "")

    def _load(self, folder: str) -> Skill | BrokenSkill:
        path = os.path.join(folder, SKILL_FILE)
        name = os.path.basename(folder)
        if folder != self._root.path:
            self._watch(folder)
        base = self._contained(path)
        if not base or not self._contained(folder):
            self._watch(path)
            return BrokenSkill(name, path, self._root.source, "a link in it leaves its root")
        cap = self._limits.file_bytes
        found, seen = load_text(base, path, cap + 1)
        self._watched.append((path, seen))
        if found.text is None:
            return BrokenSkill(name, path, self._root.source, found.refused or "cannot be read")
        if seen is not None and seen[2] > cap:
            return BrokenSkill(name, path, self._root.source, f"{SKILL_FILE} is larger than {cap} bytes")
        return parse_skill(found.text, path, name, self._root.source)


def _folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False
