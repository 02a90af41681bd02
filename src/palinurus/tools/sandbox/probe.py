"""What this machine has of the means of containment, what is missing, and what would help. Asks the kernel."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from typing import NamedTuple

from palinurus.core.types.sandbox import SandboxKind
from palinurus.tools.sandbox import bubblewrap, docker, landlock, syscalls

_SECONDS = 5.0


class SandboxSupport(NamedTuple):
    """`landlock` is the version of the interface, 0 = none; the others say whether it works, `docker` where it is."""

    landlock: int = 0
    seccomp: bool = False
    openat2: bool = False
    bubblewrap: bool = False
    docker: str = ""
    root: bool = False  # we run as root

    def best(self) -> SandboxKind:
        """The strongest kind that works here without an image and does not stand in the way of ordinary work.

        For root that is Landlock: in bubblewrap's user namespace nobody else exists, so that unpacking an archive
        with its owners fails.
        """
        if self.bubblewrap and self.landlock >= landlock.NET_SINCE and not self.root:
            return "bubblewrap"
        return "landlock" if self.landlock else "none"


@functools.cache
def detect_support() -> SandboxSupport:
    """Looked up once: none of it changes while the program runs."""
    return SandboxSupport(
        landlock=landlock.landlock_version(),
        seccomp=syscalls.detect_machine() is not None,
        openat2=syscalls.has_openat2(),
        bubblewrap=_bubblewrap_works(),
        docker=docker.find_docker(),
        root=os.geteuid() == 0,
    )


def _bubblewrap_works() -> bool:
    """Installed is not enough: many systems forbid the namespaces it needs."""
    where = bubblewrap.find_bubblewrap()
    if not where:
        return False
    line = [where, "--unshare-user-try", "--unshare-pid", "--ro-bind", "/", "/", "--proc", "/proc", "--", "/bin/true"]
    try:
        done = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, env={})
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


class SandboxGap(NamedTuple):
    """Something that is not held back here, and what to do about it."""

    what: str
    fix: str


def list_gaps(found: SandboxSupport, kind: SandboxKind) -> list[SandboxGap]:
    """What a cell of this kind leaves open on this machine, worst first."""
    if kind == "docker":
        return []
    if kind == "none":
        return [SandboxGap("commands are not contained at all", _help(found))]
    only = kind == "landlock"
    newer = "use a newer kernel, or install bubblewrap"
    fuller = "agents.defaults.sandbox.contain: bubblewrap" if found.bubblewrap else "install bubblewrap (bwrap)"
    table = (
        (not found.seccomp, "Unix sockets and other ways around the port list are open on this machine", "use Docker"),
        (found.landlock < landlock.NET_SINCE, "TCP ports are not limited: the kernel is older than 6.7", newer),
        (
            only and found.landlock < landlock.SCOPE_SINCE,
            "signals and abstract sockets are not limited: the kernel is older than 6.12",
            newer,
        ),
        (only, "other processes are visible by name, and /dev/shm is shared", fuller),
    )
    return [SandboxGap(what, fix) for is_open, what, fix in table if is_open]


def _help(found: SandboxSupport) -> str:
    if sys.platform != "linux":
        return "use Docker: agents.defaults.sandbox.mode: all"
    if not found.landlock:
        return "use a kernel with Landlock (5.13 or newer, `landlock` in the lsm= list), or Docker"
    return "remove agents.defaults.sandbox.contain: off from the config"
