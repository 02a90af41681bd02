"""`agents.defaults.sandbox`, overlaid by an agent's own, with every path judged. Names are OpenClaw's, except those of
the sandbox on the host.

A path that would open what must stay closed (the state directory, keys of the user, sockets of container
engines), or anything above such a path, is a finding and is left out.
"""

import os
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, Literal

import msgspec

from palinurus.config import paths
from palinurus.config.declare import Section, fill_section, option
from palinurus.config.findings import ConfigPlace
from palinurus.config.forms import Amount, Count, Filled, Free, Names, Size, lay_over, merge_deep, merge_raw
from palinurus.config.kinds import Written
from palinurus.core.types.sandbox import (
    ANY_PORT,
    DEFAULT_PORTS,
    ContainerMount,
    ContainerSpec,
    PortRanges,
    ProcessLimits,
    SandboxSettings,
)
from palinurus.patterns import compile_late

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
_RANGE = compile_late(r"(\d{1,5})(?:\s*-\s*(\d{1,5}))?")
_BACKENDS = ("docker", "namespaces", "landlock", "bubblewrap")

Megabytes = Annotated[int, Written(Size, lambda mb: mb << 20)]
SizeText = Annotated[str, Written(str | int, lambda size: str(size or ""))]


def _lines(told: str | list[str]) -> str:
    return "\n".join(told) if isinstance(told, list) else told


def _ulimits(told: Free) -> tuple[str, ...]:
    return tuple(_ulimit(name, value) for name, value in told.items())


def _ulimit(name: str, value: Any) -> str:
    if isinstance(value, dict):
        soft = value.get("soft", value.get("hard", 0))
        return f"{name}={soft}:{value.get('hard', soft)}"
    return f"{name}={value}"


class DockerSection(Section, frozen=True):
    """sandbox.docker: `ContainerSpec` as the config writes it."""

    ABOUT: ClassVar = """
        containerPrefix What its containers' names begin with.
        image The image.
        workdir Where the workspace is inside.
        network The network: none or bridge.
        user As whom commands run inside.
        readOnlyRoot false: the container's own files can be changed.
        tmpfs Folders in memory.
        capDrop Capabilities that are taken away.
        env Variables inside.
        memory How much memory it gets, such as 1g.
        memorySwap Memory and swap together.
        cpus How many processors it gets.
        pidsLimit How many processes.
        dns Name servers.
        extraHosts Names and their addresses.
        ulimits Limits of its processes, by name.
        seccompProfile A filter of system calls.
        apparmorProfile A profile of AppArmor.
        setupCommand What is run once when it is made.
        binds Folders of this machine inside, as /source:/target:ro.
    """
    name: Filled | None = option(None, at="containerPrefix")
    image: Filled | None = None
    workdir: Filled | None = None
    network: Filled | None = None
    user: str | None = None
    read_only: bool | None = option(None, at="readOnlyRoot", closed=True)
    tmpfs: Names | None = None
    cap_drop: Names | None = None
    env: Annotated[tuple[tuple[str, str], ...], Written(dict[str, str], lambda env: tuple(env.items()))] | None = None
    memory: SizeText | None = None
    memory_swap: SizeText | None = None
    cpus: Amount | None = None
    pids: Size | None = option(None, at="pidsLimit")
    dns: Names | None = None
    hosts: Names | None = option(None, at="extraHosts")
    ulimits: Annotated[Names, Written(Free, _ulimits)] | None = None
    seccomp: str | None = option(None, at="seccompProfile")
    apparmor: str | None = option(None, at="apparmorProfile")
    setup: Annotated[str, Written(str | list[str], _lines)] | None = option(None, at="setupCommand")
    binds: list[str] | None = None

    def make_spec(self, here: ConfigPlace) -> ContainerSpec:
        """The container; what would open the sandbox goes to the findings."""
        usual = SandboxSettings().box
        made, put = lay_over(usual, self), {}
        if made.network == "host" or made.network.startswith("container:"):
            here.bad("network", f"{made.network!r} would take the sandbox's network away", "none or bridge")
            put["network"] = "none"
        for name, key in (("seccomp", "seccompProfile"), ("apparmor", "apparmorProfile")):
            if getattr(made, name) == "unconfined":
                here.bad(key, "would switch off a part of the sandbox", "leave it out")
                put[name] = getattr(usual, name)
        return msgspec.structs.replace(made, mounts=_binds(self.binds or (), here), **put)


class SandboxLimitsSection(Section, frozen=True):
    """What a contained command may use; 0 = as the gateway has it."""

    ABOUT: ClassVar = """
        files How many files a command may have open; 0 as the gateway.
        fileMb How large a file it may write.
        memoryMb How much memory it may take.
        processes How many processes.
        cpuSeconds How much processor time.
        shmMb How much shared memory.
    """
    files: Size | None = None
    file_bytes: Megabytes | None = option(None, at="fileMb")
    memory_bytes: Megabytes | None = option(None, at="memoryMb")
    processes: Size | None = None
    cpu_seconds: Size | None = None
    shm_bytes: Megabytes | None = option(None, at="shmMb")


class SandboxSection(Section, frozen=True):
    """`SandboxSettings` as the config writes them."""

    ABOUT: ClassVar = """
        docker Its container, where the backend is docker.
        perSession The older spelling of scope: true is session, false is shared.
        sessionToolsVisibility Which sessions one inside sees: spawned (its own sub-agents) or all.
    """
    mode: Literal["off", "non-main", "all"] | None = option(
        None, "Which sessions get a sandbox and a workspace of their own: off, non-main, all.", closed="all"
    )
    backend: Filled | None = option(None, "What that sandbox is made of: docker, namespaces, bubblewrap or landlock.")
    scope: Literal["session", "agent", "shared"] | None = option(
        None, "Who shares one: session (nobody), agent, or shared.", closed="session"
    )
    access: Literal["none", "ro", "rw"] | None = option(
        None, "What a sandbox sees of the agent's workspace: none, ro or rw.", "workspaceAccess", closed="none"
    )
    workspace_root: str = option("", "Where the workspaces of sandboxed sessions are.")
    visibility: Literal["spawned", "all"] = option("spawned", at="sessionToolsVisibility")
    docker: DockerSection = DockerSection()
    contain: Literal["auto", "namespaces", "landlock", "bubblewrap", "seatbelt", "off"] | None = option(
        None, "What holds commands on this machine: auto, namespaces, bubblewrap, landlock, seatbelt (macOS), or off."
    )
    paths_read: Names = option((), "Folders besides the workspace that may be read.", "read")
    paths_written: Names = option((), "Folders besides the workspace that may be written.", "write")
    ports: Literal["default", "any", "none"] | list[Count | str] = option(
        "default", "TCP ports commands may connect to: default, any, none, or a list.", "connect", closed="none"
    )
    unix: bool | None = option(
        None, "Let commands use Unix sockets, behind which other programs listen.", "unixSockets"
    )
    process_limits: SandboxLimitsSection = option(
        SandboxLimitsSection(),
        "What a command may use: files, fileMb, memoryMb, processes, cpuSeconds, shmMb.",
        "limits",
    )

    KNOWN: ClassVar = {"perSession": bool}

    def make_settings(self, here: ConfigPlace) -> SandboxSettings:
        """The settings; what is wrong goes to the findings."""
        made = lay_over(SandboxSettings(), self)
        if made.backend not in _BACKENDS:
            here.bad("backend", f"there is no sandbox {made.backend!r} here", f"one of {', '.join(_BACKENDS)}")
            made = msgspec.structs.replace(made, backend=SandboxSettings().backend)
        return msgspec.structs.replace(
            made,
            root=here.folder(self.workspace_root or "sandboxes"),
            read=_declared("read", self.paths_read, here),
            write=_declared("write", self.paths_written, here),
            connect=_connect(self.ports, here),
            limits=lay_over(ProcessLimits(), self.process_limits),
            box=self.docker.make_spec(here.below("docker")),
        )


def resolve_sandbox(own: Free | None, shared: Free | None, here: ConfigPlace) -> SandboxSettings:
    """The settings of one agent. Findings name the defaults' place also for what its own entry says."""
    told = merge_deep(_settle_scope(own), _settle_scope(shared))
    return fill_section(SandboxSection, told, here).make_settings(here.below("agents", "defaults", "sandbox"))


def _settle_scope(layer: Free | None) -> Free:
    """With the older way to say a scope as the newer one."""
    told, older = layer or {}, {True: "session", False: "shared"}
    return merge_raw(told, {"scope": older.get(told.get("perSession", ""))})


def _declared(key: str, written: Iterable[str], here: ConfigPlace) -> tuple[str, ...]:
    found = []
    for text in written:
        path = paths.expand_path(text, here.environ, paths.find_user_home(here.environ))
        problem = find_guarded(path, here.home, here.environ)
        if problem:
            here.bad(key, f"{text!r} would open {problem}", "name the folder that is needed, nothing above it")
        else:
            found.append(path)
    return tuple(found)


def find_guarded(path: str, home: str, environ: Mapping[str, str]) -> str:
    """What `path` would lay open if it were given to commands; "" if nothing that must stay closed.

    Links are followed as far as they exist: what counts is where the path leads.
    """
    real = os.path.realpath(path)
    user = paths.find_user_home(environ)
    for other in (home, *(f"{user}/{name}" for name in GUARDED), *_SYSTEM):
        for one in {other, os.path.realpath(other)}:
            above = (one + "/").startswith(real.rstrip("/") + "/")
            # a folder in /home is a person's; one in /run or in the state directory is not for commands
            inside = real.startswith(one + "/") and one != "/home"
            if above or inside:
                return other
    return ""


def _connect(told: Any, here: ConfigPlace) -> PortRanges:
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
            here.bad("connect", f"{one!r} is no port", "ports such as 443 or '8000-8010', or the word default")
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


def _binds(written: Iterable[str], here: ConfigPlace) -> tuple[ContainerMount, ...]:
    found = []
    for text in written:
        source, _, rest = text.partition(":")
        target, _, mode = rest.partition(":")
        if not source.startswith(("/", "~")) or not target.startswith("/") or mode not in ("", "ro", "rw"):
            here.bad("binds", f"{text!r} is no bind", "write it as /source:/target:ro")
            continue
        path = paths.expand_path(source, here.environ, "/")
        problem = find_guarded(path, here.home, here.environ)
        if problem:
            here.bad("binds", f"{text!r} would open {problem}", "name the folder that is needed")
            continue
        found.append(ContainerMount(os.path.realpath(path), target, mode == "rw"))
    return tuple(found)
