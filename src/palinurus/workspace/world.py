"""What gates ask about this machine: programs on the PATH, variables, config keys. Answers are kept until a directory
of the PATH changes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from palinurus.config.settings import AgentSettings, SkillSettings
from palinurus.core.skills.gates import SkillEnvironment, SkillOverride
from palinurus.workspace.texts import FileIdentity, identify_file

# Keys that count as set when nobody wrote them.
_SET = frozenset(("browser.enabled", "browser.evaluateEnabled"))


class SkillMachine:
    """This machine, with one environment and one config. `path` is the PATH that the children of tools have."""

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
            self._entries,
            None if bundled is None else frozenset(bundled),
            None if agent.skills is None else frozenset(agent.skills),
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
