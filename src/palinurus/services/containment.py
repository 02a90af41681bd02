"""How an agent's commands are held, in a line, and what is not held: for `pal status`, `pal doctor`, `pal sandbox`, the
gateway's start and the page.
"""

from __future__ import annotations

import msgspec

from palinurus.config.settings import AgentSettings
from palinurus.core.types.sandbox import SandboxKind, SandboxSpec, needs_approval
from palinurus.tools.sandbox.probe import SandboxGap, SandboxSupport, detect_support, list_gaps

_MEANS = {
    "none": "nothing: commands run with all rights of this user",
    "landlock": "Landlock",
    "namespaces": "namespaces of its own (files, processes)",
    "bubblewrap": "bubblewrap (namespaces)",
    "seatbelt": "a sandbox-exec profile that was never tried on a Mac",
    "docker": "a Docker container",
}


class CommandContainment(msgspec.Struct, frozen=True):
    """How an agent's commands are held, in a line, and what is missing."""

    what: str
    contained: bool
    gaps: list[SandboxGap]


def name_means(kind: SandboxKind, known: SandboxSupport) -> str:
    """What holds commands of this kind on this machine, in words. Nothing is named that is not there."""
    more = [] if kind in ("none", "seatbelt", "docker") else [_MEANS[kind]]
    if more and kind != "landlock" and known.landlock:
        more.append("Landlock")
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
