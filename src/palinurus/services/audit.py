"""What `pal security audit` and the page list: settings that make the program less safe than it is by itself
(`config/sections/weakening.py`), files that others can read, skills that are not what the owner installed. And how
commands are held, in a line, with what is not held.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

import msgspec

from palinurus.config import paths
from palinurus.config.sections.weakening import WEAKENING, Weakness, list_weaknesses
from palinurus.config.settings import AgentSettings, Settings
from palinurus.core.types.sandbox import SandboxKind, SandboxSpec, needs_approval
from palinurus.tools.sandbox.probe import SandboxGap, SandboxSupport, detect_support, list_gaps
from palinurus.workspace.discovery import locate_bundled_skills, locate_installed_skills
from palinurus.workspace.install.packages import InstalledSkills

_MEANS = {
    "none": "nothing: commands run with all rights of this user",
    "landlock": "Landlock",
    "namespaces": "namespaces of its own (files, processes)",
    "bubblewrap": "bubblewrap (namespaces)",
    "docker": "a Docker container",
}
LOOKED_AT = len(WEAKENING)  # settings that could be weak


def list_findings(settings: Settings) -> list[Weakness]:
    """All of it. Reads the state directory."""
    return [*list_weaknesses(settings), *_list_readable_secrets(settings.home), *_list_strange_skills(settings.home)]


def _list_readable_secrets(home: str) -> Iterator[Weakness]:
    """Files of the state directory that hold secrets and that others may read."""
    file = paths.locate_config_file(home)
    for path in (home, file, paths.locate_last_good(file), paths.locate_token_file(home), f"{home}/state.db"):
        try:
            mode = stat.S_IMODE(os.stat(path).st_mode)
        except OSError:
            continue
        if mode & 0o077:
            right = "700" if os.path.isdir(path) else "600"
            yield Weakness(path, f"can be read by others (mode {mode:o})", f"chmod {right} {path}", True)


def _list_strange_skills(home: str) -> Iterator[Weakness]:
    """Installed skills that are not as they were when the owner looked at them, or are used instead of one of ours."""
    place = InstalledSkills(locate_installed_skills(home))
    for name, what in place.drift().items():
        yield Weakness(f"skill {name}", what, f"install it again, or pal skills remove {name}", True)
    for name in place.pins():
        if os.path.isdir(os.path.join(locate_bundled_skills(), name)):
            yield Weakness(f"skill {name}", "is used instead of the bundled one", f"pal skills remove {name}")


class CommandContainment(msgspec.Struct, frozen=True):
    """How an agent's commands are held, in a line, and what is missing."""

    what: str
    contained: bool
    gaps: list[SandboxGap]


def name_means(kind: SandboxKind, known: SandboxSupport) -> str:
    """What holds commands of this kind on this machine, in words. Nothing is named that is not there."""
    more = [] if kind in ("none", "docker") else [_MEANS[kind]]
    if more and kind != "landlock" and known.landlock:
        more.append("Landlock" if kind == "namespaces" else "Landlock for ports")
    if more and known.seccomp:
        more.append("a filter of system calls")
    return ", ".join(more[:-1]) + " and " + more[-1] if len(more) > 1 else "".join(more) or _MEANS[kind]


def describe_containment(agent: AgentSettings, found: SandboxSupport | None = None) -> CommandContainment:
    """Of sessions that are not sandboxed. Makes and starts nothing."""
    known = found or detect_support()
    contain = agent.sandbox.contain
    kind = {"auto": known.best(), "off": "none"}.get(contain, contain)
    cell = SandboxSpec(kind=kind, accepted=contain == "off")  # type: ignore[arg-type]
    if kind == "none":
        why = "switched off in the config" if contain == "off" else "this machine has no means; exec asks first"
        gaps = list_gaps(known, "none") if needs_approval(cell) else []
        return CommandContainment(f"not contained: {why}", False, gaps)
    return CommandContainment(f"contained by {name_means(cell.kind, known)}", True, list_gaps(known, cell.kind))
