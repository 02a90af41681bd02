"""The proof of a cell: a process that is put into it and tries what must fail, and what must work.

Standard library only, started without site packages. `main` reads facts from its argument and prints one line of
JSON per trial. A forbidden thing counts as held only if the system refused it; "not there" proves nothing.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

_REFUSED = frozenset(
    (
        errno.EACCES, errno.EPERM, errno.ENOSYS, errno.EROFS, errno.EPROTONOSUPPORT, errno.EAFNOSUPPORT,
        errno.EOPNOTSUPP, errno.ENETUNREACH, errno.EXDEV,
    )
)  # fmt: skip
_HIDDEN = frozenset((errno.ENOENT, errno.ESRCH))  # counts in namespaces, where things do not exist
_MPTCP, _FAST_OPEN = 262, 0x20000000
_MS_BIND, _SEIZE, _NEW_USER = 4096, 0x4206, 0x10000000
Facts: TypeAlias = dict[str, Any]


class SandboxTrial(NamedTuple):
    """One attempt. `wanted` is what has to happen: "refused" or "works"."""

    name: str
    run: Callable[[Facts], object]
    wanted: str = "refused"
    hidden: bool = False  # absence is as good as a refusal: the path exists outside


def main() -> None:
    """Try everything, print what happened."""
    facts: Facts = json.loads(sys.argv[2])
    for trial in TRIALS:
        sys.stdout.write(json.dumps(_tried(trial, facts)) + "\n")
        sys.stdout.flush()


def _tried(trial: SandboxTrial, facts: Facts) -> dict[str, Any]:
    try:
        got = trial.run(facts)
        outcome, word = ("skipped", str(got)) if isinstance(got, _Skip) else ("worked", "")
    except OSError as exc:
        word = errno.errorcode.get(exc.errno or 0, str(exc))
        refused = exc.errno in _REFUSED or (trial.hidden and exc.errno in _HIDDEN)
        outcome = "refused" if refused else "failed"
    if outcome == "skipped":
        held = None
    else:
        held = outcome == "refused" if trial.wanted == "refused" else outcome == "worked"
    return {"name": trial.name, "wanted": trial.wanted, "held": held, "how": word or outcome}


class _Skip(str):
    """Why a trial says nothing here."""


def _read(key: str) -> Callable[[Facts], object]:
    def run(facts: Facts) -> object:
        path = facts.get(key)
        if not path:
            return _Skip("nothing to read here")
        if os.path.isdir(path):
            return os.listdir(path)
        with open(path, "rb") as file:
            return file.read(64)

    return run


def _listed(key: str) -> Callable[[Facts], object]:
    """The folder itself may exist in a namespace, empty but for what was opened."""

    def run(facts: Facts) -> object:
        if not facts["hidden"][key]:
            return _Skip("nothing to see here")
        if not set(os.listdir(facts[key])) & set(facts["hidden"][key]):
            raise OSError(errno.ENOENT, "nothing of it is there")
        return None

    return run


def _environ_of_first(facts: Facts) -> object:
    # in a process namespace the first process is our own; then it holds nothing of the gateway's
    with open("/proc/1/environ", "rb") as file:
        text = file.read()
    if facts["canary"].encode() in text or not facts["namespaces"]:
        return text
    raise OSError(errno.ENOENT, "own namespace")


def _reach(path: str, mode: str = "rb") -> Callable[[Facts], object]:
    """Opened only, and closed: that nothing is written matters where it works."""

    def run(facts: Facts) -> object:
        with open(path.format(**facts), mode, buffering=0) as file:
            return file.fileno()

    return run


def _through_link(facts: Facts) -> object:
    link = os.path.join(facts["inside"], f"link-{os.getpid()}")
    os.symlink(facts["secret"], link)
    try:
        with open(link, "rb") as file:
            return file.read()
    finally:
        os.unlink(link)


def _hard_link(facts: Facts) -> object:
    link = os.path.join(facts["inside"], f"hard-{os.getpid()}")
    os.link(facts["secret"], link)
    os.unlink(link)
    return None


def _change(change: Callable[[str], object]) -> Callable[[Facts], object]:
    """Of what is kept about a file (mode, owner, times, attributes), which Landlock does not see: of one of ours, that
    may be out of sight, and of the system's that is in sight. Both have to be refused; `proof` undoes what works."""

    def run(facts: Facts) -> object:
        for path in (facts["victim"], facts["system"]):
            try:
                change(path)
            except OSError as exc:
                if exc.errno in _REFUSED or (path == facts["victim"] and exc.errno in _HIDDEN):
                    continue
                raise
            return None
        raise OSError(errno.EROFS, "refused")

    return run


def _change_owner(path: str) -> None:
    """To who we are, which changes nothing where it works."""
    found = os.stat(path)
    os.chown(path, found.st_uid, found.st_gid)


def _set_id(facts: Facts) -> object:
    path = os.path.join(facts["inside"], f"set-id-{os.getpid()}")
    with open(path, "wb"):
        pass
    try:
        os.chmod(path, 0o4755)
    finally:
        os.unlink(path)
    return None


def _truncate(facts: Facts) -> object:
    os.truncate(facts["secret"], 1)
    return None


def _new_namespace(facts: Facts) -> object:
    library = ctypes.CDLL(None, use_errno=True)
    if library.unshare(_NEW_USER) < 0:
        raise OSError(errno.EPERM, "refused")  # also as ENOSPC: none are left where their number was set to none
    return None


def _limit_gateway(facts: Facts) -> object:
    """Reads and sets what is there: where it works, nothing has changed."""
    library = ctypes.CDLL(None, use_errno=True)
    now = (ctypes.c_ulong * 2)()
    if library.prlimit(facts["gateway"], 7, None, now) < 0 or library.prlimit(facts["gateway"], 7, now, None) < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return None


def _listen(facts: Facts) -> object:
    """On a port that is not among the open ones: where the gateway was, somebody could wait for its clients."""
    if facts["free"] == 0:
        return _Skip("every port is open")
    with socket.socket() as made:
        made.bind(("127.0.0.1", facts["free"]))
        made.listen()
    return None


def _processes(facts: Facts) -> object:
    with open(f"/proc/{facts['gateway']}/cmdline", "rb") as file:
        if facts["canary"].encode() in file.read() or not facts["namespaces"]:
            return None
    raise OSError(errno.ENOENT, "another process of that number, in its own namespace")


def _secret_program_file(facts: Facts) -> object:
    if not facts["private"]:
        return _Skip("only root could read what others may not")
    with open(facts["private"], "rb") as file:
        return file.read(16)


def _connect(key: str, protocol: int = 0) -> Callable[[Facts], object]:
    def run(facts: Facts) -> object:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM, protocol) as made:
            made.settimeout(2)
            made.connect(("127.0.0.1", facts[key]))
        return None

    return run


def _fast_open(facts: Facts) -> object:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as made:
        made.settimeout(2)
        return made.sendto(b"x", _FAST_OPEN, ("127.0.0.1", facts["port"]))


def _unix(key: str, prefix: str = "") -> Callable[[Facts], object]:
    def run(facts: Facts) -> object:
        if not facts[key]:
            return _Skip("opened by sandbox.unixSockets")
        with socket.socket(socket.AF_UNIX) as made:
            made.connect(prefix + facts[key])
        return None

    return run


def _threads(facts: Facts) -> object:
    """tgkill needs no path: the gateway's first thread is tried, and the number before ours, likely who started us."""
    library = ctypes.CDLL(None, use_errno=True)
    for thread in (facts["gateway"], os.getpid() - 1):
        if library.tgkill(facts["gateway"], thread, 0) == 0:
            return None
    raise OSError(ctypes.get_errno() or errno.EPERM, "refused")


def _trace(facts: Facts) -> object:
    """Seized, not attached: where it works, the gateway goes on, and is let go when this process ends."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.ptrace(_SEIZE, facts["gateway"], None, None) < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return None


def _mount(facts: Facts) -> object:
    library = ctypes.CDLL(None, use_errno=True)
    if library.mount(facts["inside"].encode(), facts["inside"].encode(), None, _MS_BIND, None) < 0:
        raise OSError(ctypes.get_errno(), "refused")
    library.umount2(facts["inside"].encode(), 2)
    return None


def _privileges(facts: Facts) -> object:
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        found = dict(line.split(":\t", 1) for line in file if ":\t" in line)
    if found["NoNewPrivs"].strip() == "1":
        raise OSError(errno.EPERM, "none to be had")
    return None


def _write(folder: str) -> object:
    path = os.path.join(folder, f".trial-{os.getpid()}")
    with open(path, "w", encoding="ascii") as file:
        file.write("x")
    os.rename(path, path + "x")
    os.unlink(path + "x")
    return None


def _program(facts: Facts) -> object:
    done = subprocess.run(["/bin/sh", "-c", "ls /usr >/dev/null && cat /proc/self/stat | wc -c"], capture_output=True)
    if done.returncode:
        raise OSError(errno.EIO, done.stderr.decode("utf-8", "replace"))
    return None


def _own_server(facts: Facts) -> object:
    if not facts["servers"]:
        return _Skip("no ports for servers are open")
    with socket.socket() as server, socket.socket() as client:
        server.bind(("127.0.0.1", 0))
        server.listen()
        client.connect(server.getsockname())
    return None


def _own_child(facts: Facts) -> object:
    child = subprocess.Popen(["/bin/sh", "-c", "exec sleep 60"])
    child.send_signal(signal.SIGTERM)
    child.wait(10)
    return None


TRIALS = (
    SandboxTrial("read the config", _read("config"), hidden=True),
    SandboxTrial("read the gateway's token", _read("token"), hidden=True),
    SandboxTrial("list the state directory", _listed("state"), hidden=True),
    SandboxTrial("read a file beside the workspace", _read("secret"), hidden=True),
    SandboxTrial("list the user's home", _listed("home"), hidden=True),
    SandboxTrial("read the user's ssh keys", _read("ssh"), hidden=True),
    SandboxTrial("read /etc/shadow", _read("shadow"), hidden=True),
    SandboxTrial("read /proc/1/environ", _environ_of_first, hidden=True),
    SandboxTrial("read the gateway's environment", _reach("/proc/{gateway}/environ"), hidden=True),
    SandboxTrial("read the gateway's memory", _reach("/proc/{gateway}/mem"), hidden=True),
    SandboxTrial("write outside", lambda facts: _write(facts["outside"]), hidden=True),
    SandboxTrial("remove a file outside", lambda facts: os.unlink(facts["victim"]), hidden=True),
    SandboxTrial("truncate a file outside", _truncate, hidden=True),
    SandboxTrial("change the mode of a file outside", _change(lambda path: os.chmod(path, 0o644)), hidden=True),
    SandboxTrial("change the owner of a file outside", _change(_change_owner), hidden=True),
    SandboxTrial("change the times of a file outside", _change(lambda path: os.utime(path, (1, 1))), hidden=True),
    SandboxTrial(
        "set an attribute of a file outside", _change(lambda path: os.setxattr(path, "user.trial", b"1")), hidden=True
    ),
    SandboxTrial("make a program that runs as its owner", _set_id),
    SandboxTrial("read a private file of the system's", _secret_program_file, hidden=True),
    SandboxTrial("follow a planted link", _through_link, hidden=True),
    SandboxTrial("make a hard link to a file outside", _hard_link, hidden=True),
    SandboxTrial("connect to the gateway", _connect("port")),
    SandboxTrial("connect to the gateway by MPTCP", _connect("port", _MPTCP)),
    SandboxTrial("connect to the gateway by fast open", _fast_open),
    SandboxTrial("connect to a port that is not open", _connect("closed")),
    SandboxTrial("connect to a Unix socket outside", _unix("socket"), hidden=True),
    SandboxTrial("connect to an abstract socket outside", _unix("abstract", "\0")),
    SandboxTrial("send the gateway a signal", lambda facts: os.kill(facts["gateway"], 0), hidden=True),
    SandboxTrial("send a thread of the gateway a signal", _threads, hidden=True),
    SandboxTrial("set a limit of the gateway", _limit_gateway, hidden=True),
    SandboxTrial("see the gateway's command line", _processes, hidden=True),
    SandboxTrial("trace the gateway", _trace, hidden=True),
    SandboxTrial("mount something", _mount),
    SandboxTrial("make a user namespace", _new_namespace),
    SandboxTrial("listen on a port that is not open", _listen),
    SandboxTrial("open a terminal of the user", _reach("{terminal}", "r+b"), hidden=True),
    # what stands there is run by the kernel as root, outside of everything
    SandboxTrial("change a setting of the kernel", _reach("/proc/sys/kernel/core_pattern", "r+b"), hidden=True),
    SandboxTrial("gain privileges from a program", _privileges),
    SandboxTrial("write in the workspace", lambda facts: _write(facts["workspace"]), "works"),
    SandboxTrial("write in TMPDIR", lambda facts: _write(tempfile.gettempdir()), "works"),
    SandboxTrial("run programs", _program, "works"),
    SandboxTrial("talk to a server of its own", _own_server, "works"),
    SandboxTrial("end a child of its own", _own_child, "works"),
)
