"""What commands need of the system to work at all, and what of it they must not see. Reads folders; no policy.

Landlock grants whole folders and cannot take a part back, so a folder with a secret in it is granted piece by
piece: `cover_without_secrets` finds the pieces.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable
from functools import cache, lru_cache
from typing import TypeAlias

import palinurus
from palinurus.clock import SystemClock
from palinurus.tools.sandbox.layout import MAX_PIECES

PROGRAMS = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix", "/gnu/store", "/snap",
    "/run/current-system", "/home/linuxbrew/.linuxbrew", "/var/lib/ca-certificates",
)  # fmt: skip
# /proc as a whole: Landlock itself keeps the memory, environment and handles of processes outside the cell closed.
KERNEL = (
    "/proc", "/sys/devices/system", "/sys/fs/cgroup", "/sys/kernel/mm/transparent_hugepage",
    "/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager/resolv.conf",
)  # fmt: skip
# Not /dev/pts: the terminals of the user are there, to be read and written. A command's own one it has open already.
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/shm")
# In /etc: readable for everybody on some machine, and still nobody's business.
SECRET_NAMES = frozenset(
    (
        "shadow", "shadow-", "gshadow", "gshadow-", "sudoers", "sudoers.d", "private", "wireguard", "openvpn",
        "letsencrypt", "kubernetes", "rancher", "ppp", "ipsec.secrets", "ipsec.d", "krb5.keytab",
        "system-connections", "palinurus", "docker", "containerd", "machine-id", "environment",
    )
)  # fmt: skip
Judge: TypeAlias = Callable[["os.DirEntry[str]"], bool]


def find_source_root() -> str:
    """The folder our own packages are imported from."""
    return os.path.dirname(os.path.dirname(os.path.abspath(palinurus.__file__)))


def make_own_command(module: str, *args: str) -> tuple[str, ...]:
    """The command line that runs `main` of a module of ours, which finds `args` from sys.argv[2] on.

    -I and -S: nothing of the environment or of site-packages is loaded, and it starts in a third of the time."""
    code = f"import sys; sys.path.insert(0, sys.argv[1]); from {module} import main; main()"
    return (sys.executable, "-I", "-S", "-X", "utf8", "-c", code, find_source_root(), *args)


LOOK = 2.0  # seconds after which /etc is looked at again; 140 folders took 0.7 ms of every turn


class OpenPaths:
    """What of a folder of settings may be seen. It is walked again when a name in it came, went or was renamed: what
    root adds for itself while we run is as private as what was there at the start. A mode that is changed later is not
    noticed; in namespaces nothing depends on this list, because there root's files are nobody's."""

    def __init__(self, folder: str, rest: float = 0.0) -> None:
        self._folder = folder
        self._rest = rest  # seconds between two looks: each asks for the time of every folder
        self._due = 0.0
        self._seen: dict[str, int] = {}  # folder -> when its names last changed
        self._paths: tuple[str, ...] = ()

    def list(self) -> tuple[str, ...]:
        """The same tuple until something changes."""
        now = SystemClock().monotonic()
        if self._seen and now < self._due:
            return self._paths
        self._due = now + self._rest
        if not self._seen or any(_read_time(path) != at for path, at in self._seen.items()):
            self._seen = {}
            self._paths = tuple(cover_without_secrets(self._folder, _secret, self._seen))
        return self._paths


_get_settings = cache(lambda: OpenPaths("/etc", LOOK))


def _read_time(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def list_readable() -> tuple[str, ...]:
    """The paths every command may read: programs, libraries, harmless configuration, our own interpreter. The same
    tuple until something in /etc changes."""
    return _list_readable(_get_settings().list())


@lru_cache(1)
def _list_readable(settings: tuple[str, ...]) -> tuple[str, ...]:
    source = find_source_root()
    checkout = os.path.dirname(source)  # its docs are what prompts point at
    docs = os.path.join(checkout, "docs") if os.path.isfile(os.path.join(checkout, "pyproject.toml")) else source
    own = (sys.base_prefix, sys.prefix, source, docs)
    found = [path for path in (*PROGRAMS, *KERNEL) if os.path.exists(path)]
    found += [*settings, *own]
    real = (path if path in KERNEL else os.path.realpath(path) for path in found)
    # a link such as /etc/mtab leads to our own process
    return tuple(dict.fromkeys(path for path in real if path in KERNEL or not path.startswith("/proc/")))


def list_devices() -> tuple[str, ...]:
    """The devices every command may use."""
    return tuple(path for path in DEVICES if os.path.exists(path))


def _secret(entry: os.DirEntry[str]) -> bool:
    """By name, or because others may not read it: as root we could, and do not."""
    if entry.name in SECRET_NAMES:
        return True
    if entry.is_symlink():
        return False  # what it leads to is judged where it lies
    return not entry.stat(follow_symlinks=False).st_mode & stat.S_IROTH


def cover_without_secrets(folder: str, secret: Judge, seen: dict[str, int] | None = None) -> list[str]:
    """The fewest paths that cover `folder` except what is secret: `secret` is asked about every entry below. `seen`
    is told of every folder that was looked into, and when its names had last changed before that."""
    pieces, clean = _pieces(folder, secret, {} if seen is None else seen)
    return [folder] if clean else pieces[:MAX_PIECES]


def _pieces(folder: str, secret: Judge, seen: dict[str, int]) -> tuple[list[str], bool]:
    pieces: list[str] = []
    clean = True
    seen[folder] = _read_time(folder)  # first: what changes meanwhile is seen the next time
    try:
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return [], False
    for entry in found:
        try:
            if secret(entry):
                clean = False
            elif entry.is_dir(follow_symlinks=False):
                inner, whole = _pieces(entry.path, secret, seen)
                pieces += [entry.path] if whole else inner
                clean = clean and whole
            else:
                pieces.append(entry.path)
        except OSError:
            clean = False
    return pieces, clean
