"""What this machine has of the means of containment, what is missing, and what would help. Asks the kernel."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import threading

import msgspec

from palinurus.beneath import has_openat2
from palinurus.core.types.sandbox import SandboxKind, SandboxSpec
from palinurus.tools.sandbox import bubblewrap, children, docker, landlock, syscalls, system
from palinurus.tools.sandbox.launch import ChildLaunch, start_child

_SECONDS = 5.0


class SandboxSupport(msgspec.Struct, frozen=True):
    """`landlock` is the version of the interface, 0 = none; the others say whether it works, `docker` where it is."""

    landlock: int = 0
    seccomp: bool = False
    openat2: bool = False
    bubblewrap: bool = False
    docker: str = ""
    root: bool = False  # we run as root
    namespaces: bool = False
    closes: bool = True  # bubblewrap can keep commands from making namespaces of their own

    def best(self) -> SandboxKind:
        """The strongest kind that works here without an image and does not stand in the way of ordinary work.

        bubblewrap only where we may make no namespaces ourselves (it may have been given that right): it starts more
        slowly, and in its user namespace root has no other owners, so that unpacking an archive with them fails.
        """
        for kind, works in (("namespaces", self.namespaces), ("bubblewrap", self.bubblewrap)):
            if works:
                return kind  # type: ignore[return-value]
        return "landlock" if self.landlock else "none"


def detect_support() -> SandboxSupport:
    """Looked up once: none of it changes while the program runs. Who asks while it is being looked up waits."""
    with _get_lock():
        return _detect()


_get_lock = functools.cache(threading.Lock)


def make_empty_sandbox() -> SandboxSpec:
    """For readers of foreign formats: programs can be read, nothing can be written or connected to. Of the strongest
    kind there is; where there is none, a child has only the limits it sets itself."""
    kind = detect_support().best()
    if kind == "none":
        return SandboxSpec()
    return SandboxSpec(kind=kind, read=system.list_readable(), write=system.list_devices(), connect=())


@functools.cache
def _detect() -> SandboxSupport:
    namespaces, seccomp = _namespaces_work(), syscalls.detect_machine() is not None
    return SandboxSupport(
        landlock=landlock.landlock_version(),
        seccomp=seccomp,
        openat2=has_openat2(),
        # each is a process, of which every start would pay for two: who may make namespaces need not try bubblewrap,
        # and a filter closes what bubblewrap leaves open
        bubblewrap=bool(bubblewrap.find_bubblewrap()) and (namespaces or _bubblewrap_works()),
        docker=docker.find_docker(),
        root=os.geteuid() == 0,
        namespaces=namespaces,
        closes=seccomp or bubblewrap.can_close_namespaces(),
    )


def _namespaces_work() -> bool:
    """Tried, because no setting tells: containers, hardened kernels and their policies forbid them in many ways."""
    if not children.has_keepers():
        return False
    cell = SandboxSpec(kind="namespaces", read=("/usr", "/bin", "/lib", "/lib64", "/etc"))
    nothing = subprocess.DEVNULL
    pool = children.KeeperPool(ahead=False)
    try:
        child = start_child(
            ChildLaunch(("/bin/sh", "-c", ":"), "/", {}, cell), stdin=nothing, stdout=nothing, stderr=nothing, pool=pool
        )
        return child.wait(_SECONDS) == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
    finally:
        pool.close()


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


class SandboxGap(msgspec.Struct, frozen=True):
    """Something that is not held back here, and what to do about it."""

    what: str
    fix: str


def list_gaps(found: SandboxSupport, kind: SandboxKind) -> list[SandboxGap]:
    """What a cell of this kind leaves open on this machine, worst first."""
    if kind == "docker":
        return []
    if kind == "none":
        return [SandboxGap("commands are not contained at all", _help(found))]
    if kind == "seatbelt":
        return [SandboxGap(what, fix) for what, fix in _SEATBELT]
    only = kind == "landlock"
    newer = "use a newer kernel, or install bubblewrap"
    fuller = "agents.defaults.sandbox.contain: bubblewrap" if found.bubblewrap else "install bubblewrap (bwrap)"
    table = (
        (
            only,
            "modes, owners, times and attributes of files outside can be changed (chmod, chown, touch), as far as this "
            "user may: Landlock does not see that",
            "allow namespaces to this user (kernel.unprivileged_userns_clone, AppArmor), or " + fuller,
        ),
        (not found.seccomp, "Unix sockets and other ways around the port list are open on this machine", "use Docker"),
        (only and found.landlock < landlock.TRUNCATE_SINCE, "files outside can be emptied by truncate", newer),
        (
            found.landlock < landlock.NET_SINCE,
            "TCP ports are not limited: the kernel is older than 6.7",
            "use a newer kernel, or agents.defaults.sandbox.connect: none",
        ),
        (
            only and found.landlock < landlock.SCOPE_SINCE,
            "signals and abstract sockets are not limited: the kernel is older than 6.12",
            newer,
        ),
        (
            kind == "bubblewrap" and not found.seccomp and (found.root or not found.closes),
            "commands can make user namespaces, which open parts of the kernel that only root reaches otherwise",
            "run the gateway as a user of its own, with bubblewrap 0.8 or newer",
        ),
        (only, "other processes are visible with their command lines, and /dev/shm is shared", fuller),
        (
            found.root and kind != "namespaces",
            "files below /usr and /opt that only root may read can be read",
            "run the gateway as a user of its own",
        ),
    )
    return [SandboxGap(what, fix) for is_open, what, fix in table if is_open]


_SEATBELT = (
    (
        "the profile for sandbox-exec was written without a Mac: nobody has seen it hold",
        "`pal sandbox test`, or Docker",
    ),
    ("names, sizes and times of files outside can be seen", "use Docker"),
    (
        "processes, memory and the size of files are not limited; what a command leaves running is not ended",
        "use Docker",
    ),
)


def _help(found: SandboxSupport) -> str:
    if sys.platform == "darwin":
        return "use Docker (agents.defaults.sandbox.mode: all), or sandbox.contain: seatbelt, which was never tried"
    if sys.platform != "linux":
        return "use Docker: agents.defaults.sandbox.mode: all"
    if not found.landlock:
        return "use a kernel with Landlock (5.13 or newer, `landlock` in the lsm= list), or Docker"
    return "remove agents.defaults.sandbox.contain: off from the config"
