"""`agents.defaults.sandbox`, overlaid by an agent's own, with every default applied and every path judged. Pure.

A path that would open what must stay closed (the state directory, keys of the user, sockets of container
engines), or anything above such a path, is a finding and is left out.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from palinurus.config import paths
from palinurus.config.findings import ConfigFinding
from palinurus.config.keypath import Path
from palinurus.config.schema.sandbox import DockerSection, SandboxLimitsSection, SandboxSection
from palinurus.core.types.sandbox import (
    ANY_PORT,
    DEFAULT_PORTS,
    ContainerMount,
    ContainerSpec,
    PortRanges,
    SandboxSettings,
)
from palinurus.core.types.sandbox import ProcessLimits as CellLimits

# What opens other doors, in the user's home; and where programs listen that run commands for whoever asks.
GUARDED = (
    ".ssh", ".aws", ".azure", ".config/gcloud", ".kube", ".docker", ".gnupg", ".netrc", ".npmrc", ".pypirc",
    ".git-credentials", ".config/gh", ".password-store", ".mozilla", ".config/google-chrome", ".config/chromium",
    ".local/share/keyrings", ".openclaw", ".palinurus",
)  # fmt: skip
_SYSTEM = (
    "/run", "/var/run", "/proc", "/sys", "/dev", "/etc/shadow", "/etc/sudoers", "/boot", "/home",
    os.path.join("/root", ".ssh"),
)  # fmt: skip
_RANGE = re.compile(r"(\d{1,5})(?:\s*-\s*(\d{1,5}))?")
_BACKENDS = ("docker", "landlock", "bubblewrap")


class SandboxContext(msgspec.Struct, frozen=True):
    """What the words in the section are seen from."""

    path: Path
    home: str  # the state directory
    environ: Mapping[str, str]
    findings: list[ConfigFinding]

    def bad(self, key: str, message: str, hint: str = "") -> None:
        self.findings.append(ConfigFinding((*self.path, *key.split(".")), message, hint))


def resolve_sandbox(
    own: SandboxSection | None, shared: SandboxSection | None, where: SandboxContext
) -> SandboxSettings:
    """The settings of one agent; what is wrong goes to the findings."""
    told = _over(own, shared, SandboxSection())
    base = SandboxSettings()
    backend = told.backend or base.backend
    if backend not in _BACKENDS:
        where.bad("backend", f"there is no sandbox {backend!r} here", f"one of {', '.join(_BACKENDS)}")
    scope = told.scope or ("session" if told.per_session else "shared" if told.per_session is False else base.scope)
    return SandboxSettings(
        mode=told.mode or base.mode,
        backend=backend,
        scope=scope,
        access=told.workspace_access or base.access,
        root=paths.expand_path(told.workspace_root or "sandboxes", where.environ, where.home),
        contain=told.contain or base.contain,
        read=_declared("read", told.read or (), where),
        write=_declared("write", told.write or (), where),
        connect=_connect(told.connect, where),
        unix=bool(told.unix_sockets),
        limits=_limits(_over(told.limits, None, SandboxLimitsSection())),
        box=_box(_over(own.docker if own else None, shared.docker if shared else None, DockerSection()), where),
    )


def _over(own: Any, shared: Any, nothing: Any) -> Any:
    """Field by field: the agent's own word, else the shared one."""
    if own is None or shared is None:
        return own or shared or nothing
    fields = {name: getattr(own, name) for name in own.__struct_fields__}
    return msgspec.structs.replace(shared, **{name: value for name, value in fields.items() if value is not None})


def _declared(key: str, written: Iterable[str], where: SandboxContext) -> tuple[str, ...]:
    found = []
    for text in written:
        path = paths.expand_path(text, where.environ, paths.find_user_home(where.environ))
        problem = find_guarded(path, where)
        if problem:
            where.bad(key, f"{text!r} would open {problem}", "name the folder that is needed, nothing above it")
        else:
            found.append(path)
    return tuple(found)


def find_guarded(path: str, where: SandboxContext) -> str:
    """What `path` would lay open if it were given to commands; "" if nothing that must stay closed.

    Links are followed as far as they exist: what counts is where the path leads.
    """
    real = os.path.realpath(path)
    user = paths.find_user_home(where.environ)
    for other in (where.home, *(f"{user}/{name}" for name in GUARDED), *_SYSTEM):
        for one in {other, os.path.realpath(other)}:
            above = (one + "/").startswith(real.rstrip("/") + "/")
            # a folder in /home is a person's; one in /run or in the state directory is not for commands
            inside = real.startswith(one + "/") and one != "/home"
            if above or inside:
                return other
    return ""


def _connect(told: Any, where: SandboxContext) -> PortRanges:
    words: dict[Any, PortRanges] = {None: DEFAULT_PORTS, "default": DEFAULT_PORTS, "any": ANY_PORT, "none": ()}
    if not isinstance(told, list):
        return words[told]
    found: list[tuple[int, int]] = []
    for one in told:
        if one in ("default", "any"):
            found += words[one]
            continue
        match = _RANGE.fullmatch(str(one).strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        if 1 <= first <= last <= 65535:
            found.append((first, last))
        else:
            where.bad("connect", f"{one!r} is no port", "ports such as 443 or '8000-8010', or the word default")
    return join_ports(found)


def join_ports(ports: Iterable[tuple[int, int]]) -> PortRanges:
    """The same ports as few, ordered ranges."""
    made: list[tuple[int, int]] = []
    for first, last in sorted(ports):
        if made and first <= made[-1][1] + 1:
            made[-1] = (made[-1][0], max(last, made[-1][1]))
        else:
            made.append((first, last))
    return tuple(made)


def remove_port(ports: PortRanges, port: int) -> PortRanges:
    """The ports without one."""
    pieces = ((a, b) for first, last in ports for a, b in ((first, min(last, port - 1)), (max(first, port + 1), last)))
    return join_ports((a, b) for a, b in pieces if a <= b)


def _limits(told: SandboxLimitsSection) -> CellLimits:
    base = CellLimits()
    return CellLimits(
        files=base.files if told.files is None else told.files,
        file_bytes=(told.file_mb or 0) << 20,
        memory_bytes=(told.memory_mb or 0) << 20,
        processes=told.processes or 0,
        cpu_seconds=told.cpu_seconds or 0,
    )


def _box(told: DockerSection, where: SandboxContext) -> ContainerSpec:
    base = SandboxSettings().box
    setup = told.setup_command
    network = told.network or base.network
    if network == "host" or network.startswith("container:"):
        where.bad("docker.network", f"{network!r} would take the sandbox's network away", "none or bridge")
    for name, value in (("seccompProfile", told.seccomp_profile), ("apparmorProfile", told.apparmor_profile)):
        if value == "unconfined":
            where.bad(f"docker.{name}", "would switch off a part of the sandbox", "leave it out")
    return ContainerSpec(
        name=told.container_prefix or base.name,
        image=told.image or base.image,
        workdir=told.workdir or base.workdir,
        mounts=_binds(told.binds or (), where),
        network=network,
        user=told.user or "",
        read_only=told.read_only_root is not False,
        tmpfs=base.tmpfs if told.tmpfs is None else tuple(told.tmpfs),
        cap_drop=base.cap_drop if told.cap_drop is None else tuple(told.cap_drop),
        env=tuple((told.env or {}).items()),
        memory=str(told.memory or ""),
        memory_swap=str(told.memory_swap or ""),
        cpus=told.cpus or 0,
        pids=base.pids if told.pids_limit is None else told.pids_limit,
        dns=tuple(told.dns or ()),
        hosts=tuple(told.extra_hosts or ()),
        ulimits=tuple(_ulimit(name, value) for name, value in (told.ulimits or {}).items()),
        seccomp=told.seccomp_profile or "",
        apparmor=told.apparmor_profile or "",
        setup="\n".join(setup) if isinstance(setup, list) else setup or "",
    )


def _ulimit(name: str, value: Any) -> str:
    if isinstance(value, dict):
        soft = value.get("soft", value.get("hard", 0))
        return f"{name}={soft}:{value.get('hard', soft)}"
    return f"{name}={value}"


def _binds(written: Iterable[str], where: SandboxContext) -> tuple[ContainerMount, ...]:
    found = []
    for text in written:
        source, _, rest = text.partition(":")
        target, _, mode = rest.partition(":")
        if not source.startswith(("/", "~")) or not target.startswith("/") or mode not in ("", "ro", "rw"):
            where.bad("docker.binds", f"{text!r} is no bind", "write it as /source:/target:ro")
            continue
        path = paths.expand_path(source, where.environ, "/")
        problem = find_guarded(path, where)
        if problem:
            where.bad("docker.binds", f"{text!r} would open {problem}", "name the folder that is needed")
            continue
        found.append(ContainerMount(os.path.realpath(path), target, mode == "rw"))
    return tuple(found)
