"""What a child process may do: paths it may read or write, ports it may connect to, how much it may use.

A value, resolved once per run from the configuration; the kernel's part of it is in `tools/sandbox`.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

SandboxKind: TypeAlias = Literal["none", "landlock", "bubblewrap", "namespaces", "seatbelt", "docker"]
SEPARATE = ("namespaces", "bubblewrap")  # kinds in which only the sandbox's own paths exist, and /tmp is its own
PortRanges: TypeAlias = tuple[tuple[int, int], ...]  # ranges, both ends included

# What developers need: ssh, DNS, https, git; servers on this machine that a test or a preview starts. Not 80: behind
# it the keys of cloud machines are given out without asking. Not the ports of databases.
DEFAULT_PORTS: PortRanges = (
    (22, 22), (53, 53), (443, 443), (3000, 3010), (4000, 4000), (4173, 4173), (4200, 4200), (5000, 5001),
    (5173, 5175), (8000, 8010), (8080, 8090), (8443, 8443), (8888, 8888), (9000, 9000), (9418, 9418), (32768, 60999),
)  # fmt: skip
EPHEMERAL_PORTS = (32768, 60999)  # what the kernel gives to servers that ask for any
ANY_PORT: PortRanges = ((1, 65535),)
DEFAULT_IMAGE = "debian:bookworm-slim"


class ProcessLimits(msgspec.Struct, frozen=True):
    """What a command may use: each process of it, and where the kernel can, all together. 0 = as the gateway has it."""

    files: int = 4096  # open files
    file_bytes: int = 16 << 30  # size of a written file
    memory_bytes: int = -1  # that can be written to; -1 = three quarters of the machine's
    processes: int = 1024  # threads among them
    cpu_seconds: int = 0
    shm_bytes: int = 1 << 30  # of /dev/shm, where the command has one of its own


class ContainerMount(msgspec.Struct, frozen=True):
    """A folder of the host as a container sees it."""

    source: str
    target: str
    write: bool = False


class ContainerSpec(msgspec.Struct, frozen=True):
    """The container of a sandboxed session. Two boxes that differ in anything but the name need two containers."""

    name: str
    image: str
    workdir: str = "/workspace"
    mounts: tuple[ContainerMount, ...] = ()
    network: str = "none"
    user: str = ""
    read_only: bool = True
    tmpfs: tuple[str, ...] = ("/tmp", "/var/tmp", "/run")
    cap_drop: tuple[str, ...] = ("ALL",)
    env: tuple[tuple[str, str], ...] = ()
    memory: str = ""
    memory_swap: str = ""
    cpus: float = 0
    pids: int = 256
    dns: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    ulimits: tuple[str, ...] = ()
    seccomp: str = ""
    apparmor: str = ""
    setup: str = ""  # run once in a new container


class SandboxSpec(msgspec.Struct, frozen=True):
    """`read` may be read and run, `write` also written; no other file can be opened by the child.

    `connect`: TCP ports it may connect to; None = any, () = no network at all.
    """

    kind: SandboxKind = "none"
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    connect: PortRanges | None = None
    limits: ProcessLimits = ProcessLimits()
    unix: bool = False  # may use Unix sockets, behind which programs outside the sandbox listen
    alone: bool = False  # a network of its own with nothing on it but itself (kind namespaces)
    nested: bool = False  # may make user namespaces: a browser holds its pages in them
    temporary: str = ""  # a folder of `write`, the child's TMPDIR
    box: ContainerSpec | None = None  # docker only
    accepted: bool = False  # the owner said in the config that nothing need hold commands
    hide: tuple[str, ...] = ()  # real paths inside the others that may not be opened: the owner's memory
    listed: tuple[str, ...] = ()  # folders whose names may be seen (what Landlock needs where parts are hidden)


class SandboxSettings(msgspec.Struct, frozen=True):
    """agents.defaults.sandbox, for one agent. Paths are absolute."""

    mode: Literal["off", "non-main", "all"] = "off"
    backend: str = "docker"
    scope: Literal["session", "agent", "shared"] = "session"
    access: Literal["none", "ro", "rw"] = "none"
    root: str = ""  # of the workspaces of sandboxed sessions
    contain: Literal["auto", "namespaces", "landlock", "bubblewrap", "seatbelt", "off"] = "auto"
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    connect: PortRanges = DEFAULT_PORTS
    unix: bool = False
    limits: ProcessLimits = ProcessLimits()
    box: ContainerSpec = ContainerSpec("palinurus-", DEFAULT_IMAGE)  # the name is a prefix


def needs_approval(sandbox: SandboxSpec) -> bool:
    """True where nothing holds a command back and the owner has not said that this is meant: a person has to look at
    it before it runs."""
    return sandbox.kind == "none" and not sandbox.accepted
