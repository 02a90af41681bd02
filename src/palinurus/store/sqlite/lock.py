"""One gateway per state directory: a kernel lock that dies with its process, so it is never stale.

The directory itself is locked: nobody can remove it from under a running gateway. The file `gateway.lock` in it says
who holds it, and is locked too, for disks that lock no directories. Knows nothing of the database.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat

from palinurus.config.paths import check_home
from palinurus.errors import StateLocked, StateUnwritable
from palinurus.files import read_plain_file

LOCK_NAME = "gateway.lock"


class StateLock:
    """The held lock. Children do not inherit it; `release` or the end of the process frees it."""

    def __init__(self, *fds: int) -> None:
        self._fds = fds

    def release(self) -> None:
        """Free the directory. Safe to call twice."""
        fds, self._fds = self._fds, ()
        for fd in fds:
            os.close(fd)


def take_lock(home: str) -> StateLock:
    """Create `home` (mode 0700) if need be and lock it. Raises StateUnwritable, StateLocked; waits for nothing."""
    _directory(home)
    path = os.path.join(home, LOCK_NAME)
    folder = _open(home, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _locked(path, home) from None
        except OSError:
            pass  # a network disk that locks files only
        return StateLock(folder, _lock_file(path, home))
    except BaseException:
        os.close(folder)
        raise


def _lock_file(path: str, home: str) -> int:
    while True:
        fd = _open(path, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            raise _locked(path, home) from None
        except OSError as error:
            os.close(fd)
            raise StateUnwritable(
                f"{home} cannot be locked: {error.strerror}", fix="set PALINURUS_HOME to a directory on a local disk"
            ) from None
        if _same(fd, path):
            break
        os.close(fd)  # somebody removed the file between our open and our lock: a lock on it would guard nothing
    with contextlib.suppress(OSError):  # a full disk: the lock holds all the same, only the pid cannot be named
        os.ftruncate(fd, 0)
        os.pwrite(fd, b"%d\n" % os.getpid(), 0)
    return fd


# command of `pal` -> what has the state, and what to do about it. What serves others is found by them: no need to say.
_HOLDERS = {
    "gateway": ("a gateway", "talk to it (`pal chat`, `pal status`) or stop it (`pal gateway stop`)"),
    "chat": ("a chat in another terminal", "leave that chat, or run `pal gateway start` before it: that serves all"),
}
_ANY = ("`pal {command}`", "wait for its end, or run `pal gateway start` before it: that serves all")
_UNKNOWN = (
    "a gateway, or a chat or command in another terminal",
    "no gateway (`pal status`)? Leave that chat and run `pal gateway start`, which serves all",
)


def _locked(path: str, home: str) -> StateLocked:
    try:
        pid = read_plain_file(path, 32).strip().decode("ascii", "replace")
    except OSError:
        pid = ""
    who = f"process {pid}" if pid.isdigit() else "another process"
    stop = f"stop it (kill {pid})" if pid.isdigit() else "stop it"
    command = find_command(pid) if pid.isdigit() else ""
    what, fix = _HOLDERS.get(command, _ANY if command else _UNKNOWN)
    return StateLocked(
        f"{home} is in use by {who}: {what.format(command=command)}",
        fix=f"{fix}; else {stop}, or set PALINURUS_HOME to run a second one",
        command=command,
    )


def find_command(pid: str) -> str:
    """Which command of `pal` a process is; "" if it is none, or cannot be known (only Linux tells)."""
    try:
        with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:
            words = file.read(4096).split("\0")[:-1]
    except OSError:
        return ""
    for at, word in enumerate(words[:4]):  # the interpreter and its options stand before it
        if os.path.basename(word) == "pal" or word == "palinurus" or word.endswith("palinurus/__main__.py"):
            return _read_command(words[at + 1 :])
    return ""


def _read_command(words: list[str]) -> str:
    while words and words[0].partition("=")[0] in ("--home", "--profile"):
        words = words[1:] if "=" in words[0] else words[2:]
    if not words or words[0].startswith("-"):
        return "print" if {"-p", "--print", "--output-format", "--input-format"} & set(words) else "chat"
    return words[0]


def _same(fd: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except FileNotFoundError:
        return False


def _open(path: str, flags: int) -> int:
    try:
        return os.open(path, flags, 0o600)
    except OSError as error:
        raise explain_unusable(os.path.dirname(path), error) from None


def _directory(home: str) -> None:
    check_home(home)
    try:
        os.makedirs(home, mode=0o700, exist_ok=True)
        found = os.stat(home)
    except OSError as error:
        raise explain_unusable(home, error) from None
    check_owner(home, found)
    if stat.S_IMODE(found.st_mode) & 0o077:
        try:
            os.chmod(home, stat.S_IMODE(found.st_mode) & 0o700)
        except OSError as error:
            raise explain_unusable(home, error) from None


def check_owner(path: str, found: os.stat_result) -> None:
    """Raise StateUnwritable if `path` is somebody else's: as root we could write, and the owner no longer could."""
    if found.st_uid != os.geteuid():
        raise StateUnwritable(
            f"{path} belongs to user {found.st_uid}, this process is user {os.geteuid()}",
            fix="run as its owner, or change the owner (chown -R), or set PALINURUS_HOME",
        )


def explain_unusable(path: str, error: OSError, done: str = "written") -> StateUnwritable:
    """One line for a directory or file that cannot be used."""
    if isinstance(error, FileExistsError | NotADirectoryError):
        fix = "move the file away or set PALINURUS_HOME to a directory"
        return StateUnwritable(f"{path} is not a directory", fix=fix)
    return StateUnwritable(
        f"{path} cannot be {done}: {error.strerror}",
        fix="change its owner or mode, or set PALINURUS_HOME to another directory",
    )
