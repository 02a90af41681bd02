"""The process that stands between the gateway and one command: it puts itself into the sandbox, waits for the command
line, starts it, and ends everything that came of it when it ends. Then it may take another one of the same sandbox, if
the last one left nothing behind. Runs in the starter's process family, not in ours.

It is the first process of its own process namespace where there is one, else the one that orphans come to; either way
nothing that a command starts gets away from it. When the gateway is gone, its channel closes, and so does all of this.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import resource
import select
import signal
import socket
import struct
from typing import Any, NamedTuple, NoReturn

from palinurus.tools.sandbox import confine, mounts, plan, syscalls
from palinurus.tools.sandbox.layout import list_mounts
from palinurus.tools.sandbox.plan import KeeperLimits, KeeperPlan, read_plan

_NEW_NAMESPACES = 0x20000 | 0x20000000 | 0x08000000  # mounts, processes, shared memory
_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000
_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 1  # of a network interface
_SUBREAPER, _DUMPABLE = 36, 4
_LEAST_WANTED = "500"  # for the kernel's choice when memory runs out
_TRIES = 100  # how often, at most 50 ms apart, what was killed is waited for
_HANDLES = 3
_INNER_CHANNEL, _INNER_PLAN = 3, 4  # what the keeper inside bubblewrap finds open
_ROUNDS = 20
_AT_ONCE = 0.005  # seconds
_SHARED = ("/proc/sysvipc/shm", "/proc/sysvipc/sem", "/proc/sysvipc/msg")
_QUIET = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)
_RESET = (*_QUIET, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGQUIT)


class KeeperSetup(NamedTuple):
    """What the starter knows and every keeper needs. `shadow`: see `mounts.enter_root`; `spared`: processes that a
    command must leave alone; `user` and `group`: who we are, which a new user namespace does not tell."""

    shadow: int | None
    spared: tuple[int, ...]
    user: int
    group: int


def list_new_namespaces(cell: KeeperPlan) -> int:
    """The flags a keeper of this sandbox is forked with."""
    if cell.kind != "namespaces":
        return 0
    return _NEW_NAMESPACES | (0 if os.geteuid() == 0 else _NEW_USER) | (_NEW_NETWORK if cell.alone else 0)


def keep_command(channel: socket.socket, cell: KeeperPlan, setup: KeeperSetup) -> NoReturn:
    """The whole life of a keeper, in the process that was forked for it."""
    try:
        for number in _QUIET:
            signal.signal(number, _ignore)  # not SIG_IGN, which the command would inherit
        tell_gateway(channel, plan.PID, int(os.readlink("/proc/self")))  # as it is outside: /proc is not ours yet
        _enter(cell, setup)
        if cell.wrapper:
            _wrap(channel, cell)
        else:
            CommandKeeper(channel, cell).serve()
    except OSError as exc:
        tell_gateway(channel, plan.FAILED, exc.errno or errno.EIO)
    finally:
        os._exit(0)


def _wrap(channel: socket.socket, cell: KeeperPlan) -> None:
    """bubblewrap makes the namespaces, with the keeper in them that takes the commands (`main`): making them costs
    more than all else about a command. Waits until that one has ended. Raises OSError."""
    memory = os.memfd_create("palinurus", os.MFD_CLOEXEC)
    # in there is nothing but what the sandbox shows, so that folders may be listed from the root on, as ever
    os.write(memory, json.dumps(cell._replace(kind="namespaces", listed=("/",), wrapper=())).encode())
    os.lseek(memory, 0, os.SEEK_SET)
    # beyond the numbers they get inside, so that neither is written over
    handles = (fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, _INNER_PLAN + 1) for one in (channel.fileno(), memory))
    actions = [(os.POSIX_SPAWN_DUP2, one, to) for one, to in zip(handles, (_INNER_CHANNEL, _INNER_PLAN), strict=True)]
    env = {"PATH": os.defpath, "LC_ALL": "C.UTF-8"}
    wrapper = os.posix_spawn(cell.wrapper[0], cell.wrapper, env, file_actions=actions, setsigdef=_RESET)
    if os.waitstatus_to_exitcode(os.waitpid(wrapper, 0)[1]) > 0:  # else all was said by the one inside
        raise OSError(errno.EIO, "bubblewrap could not make the sandbox")


def main() -> None:
    """The keeper inside bubblewrap, the first process there: what is not held yet is held from here on, by the same
    rules as in namespaces of our own."""
    channel = socket.socket(fileno=_INNER_CHANNEL)
    channel.set_inheritable(False)
    for number in _QUIET:
        signal.signal(number, _ignore)
    with open(_INNER_PLAN, "rb") as file:
        cell = read_plan(json.load(file))
    try:
        confine.confine_process(cell, ())
        syscalls.call_prctl(_DUMPABLE, 0)
        CommandKeeper(channel, cell).serve()
    except OSError as exc:
        tell_gateway(channel, plan.FAILED, exc.errno or errno.EIO)
    finally:
        os._exit(0)


def tell_gateway(channel: socket.socket, what: bytes, *words: int) -> None:
    """A message; nothing happens if nobody listens any more."""
    with contextlib.suppress(OSError):
        channel.send(what + b"".join(plan.WORD.pack(word) for word in words))


def _ignore(number: int, frame: object) -> None:
    return None


def _enter(cell: KeeperPlan, setup: KeeperSetup) -> None:
    """Into the sandbox. Raises OSError: then there is no command."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write(_LEAST_WANTED)
    if cell.kind == "namespaces":
        if setup.user:
            _map_user(setup)
        if cell.alone:
            _raise_loopback()
        limits = cell.limits
        mounts.enter_root(
            list_mounts(cell), setup.shadow, limits.shm_bytes, limits.processes, writable_proc=cell.nested
        )
    else:
        syscalls.call_prctl(_SUBREAPER, 1)
    if cell.kind in plan.CONFINED:
        _limit(cell)
        confine.confine_process(cell, (*setup.spared, os.getpid()))
    syscalls.call_prctl(_DUMPABLE, 0)  # the command is of the same user and under the same rules


def _map_user(setup: KeeperSetup) -> None:
    """The same user and group, and nobody else, in the new user namespace."""
    user, group = f"{setup.user} {setup.user} 1", f"{setup.group} {setup.group} 1"
    for name, text in (("setgroups", "deny"), ("uid_map", user), ("gid_map", group)):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)


def _raise_loopback() -> None:
    """A new network has a loopback device, which is down."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        asked = fcntl.ioctl(any_socket, _GET_FLAGS, struct.pack("=16sh22x", b"lo", 0))
        (flags,) = struct.unpack_from("=h", asked, 16)
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("=16sh22x", b"lo", flags | _UP))


def _limit(cell: KeeperPlan) -> None:
    for which, amount in list_limits(cell.limits, own_users=cell.kind == "namespaces"):
        with contextlib.suppress(OSError, ValueError):  # one the system refuses is left out
            _, hard = resource.getrlimit(which)
            amount = amount if hard == resource.RLIM_INFINITY else min(amount, hard)
            resource.setrlimit(which, (amount, amount))


def list_limits(limits: KeeperLimits, *, own_users: bool) -> list[tuple[int, int]]:
    """Limits of the system and their values. The number of processes is counted per user: where the user is not a new
    one, those that run already are allowed for."""
    others = 0 if own_users else _count_tasks()
    table = (
        (resource.RLIMIT_NOFILE, limits.files),
        (resource.RLIMIT_FSIZE, limits.file_bytes),
        # not the address space, of which node and java reserve far more than they use
        (resource.RLIMIT_DATA, limits.memory_bytes),
        (resource.RLIMIT_CPU, limits.cpu_seconds),
        (resource.RLIMIT_NPROC, limits.processes and limits.processes + others),
    )
    return [(resource.RLIMIT_CORE, 0), *((which, amount) for which, amount in table if amount)]


def _count_tasks() -> int:
    try:
        with open("/proc/loadavg", encoding="ascii") as file:
            return int(file.read().split()[3].split("/")[1])
    except (OSError, ValueError, IndexError):
        return 4096


class _Job(NamedTuple):
    argv: list[str]
    cwd: str
    env: dict[str, str]
    session: bool
    handles: list[int]


class CommandKeeper:
    """One command at a time: started when its description arrives, ended with all that came of it."""

    def __init__(self, channel: socket.socket, cell: KeeperPlan) -> None:
        self._channel = channel
        self._own = cell.kind == "namespaces"
        self._leader = 0  # of the group its command was started in, if that is its own
        # browsers can write in /proc, or make what nobody could look for here
        self._once = cell.kind not in plan.CONFINED or cell.nested or cell.alone
        self._urgency = os.getpriority(os.PRIO_PROCESS, 0)
        self._wakeup, woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(woken, warn_on_full_buffer=False)

    def serve(self) -> None:
        """Command after command, until there is nobody to do it for or one has left something behind.

        Raises OSError when one cannot be started."""
        while (job := _receive(self._channel)) is not None and self._run(job):
            pass

    def _run(self, job: _Job) -> bool:
        """Start it, wait for its end, end what it leaves. True if the next one may follow."""
        if select.select([self._channel], [], [], 0)[0]:  # called off while we got ready: it never begins
            tell_gateway(self._channel, plan.EXITED, signal.SIGTERM, 0, 0)
            return False
        command = _spawn(job)
        self._leader = command if job.session else 0
        for handle in job.handles:
            os.close(handle)
        status = self._watch(command)
        left, alone = self.end_everything()
        if status is None:
            return False
        again = alone and self._is_as_new()
        tell_gateway(self._channel, plan.EXITED, status, left, again)
        return again

    def _is_as_new(self) -> bool:
        """Would the next command find the sandbox as this one found it? What lies in the folders that its commands
        share is meant to stay; nothing else is."""
        if self._once or os.getpriority(os.PRIO_PROCESS, 0) != self._urgency:
            return False
        # the filter refuses message queues, which cannot be looked for
        return not self._own or (not os.listdir("/dev/shm") and not any(map(_has_rows, _SHARED)))

    def _watch(self, command: int) -> int | None:
        """How the command ended; None when nobody wants to know any more. Says that it runs, but not of one that ends
        at once: its end says so, too, and the gateway wakes up once."""
        told = False
        while True:
            ready, _, _ = select.select([self._channel.fileno(), self._wakeup], [], [], None if told else _AT_ONCE)
            self._clear()
            if self._channel.fileno() in ready:
                said = self._channel.recv(16)
                if not said:
                    return None
                self._signal_all(signal.SIGTERM if said == plan.TERMINATE else signal.SIGKILL)
            while (found := _reap()) is not None:
                if found[0] == command:
                    return found[1]
            if not told:
                told = True
                tell_gateway(self._channel, plan.STARTED)

    def _clear(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wakeup, 4096)

    def end_everything(self) -> tuple[int, bool]:
        """Kill whatever descends from this process. Returns how many were running, and whether all are gone."""
        left = 0
        for _ in range(_TRIES):
            try:
                while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                    left += os.WIFSIGNALED(ended[1]) and os.WTERMSIG(ended[1]) == signal.SIGKILL
            except ChildProcessError:
                return left, True  # orphans come to us: without a child there is nobody
            self._signal_all(signal.SIGKILL)
            select.select([self._wakeup], [], [], 0.05)
            self._clear()
        return left, False

    def _signal_all(self, number: signal.Signals) -> None:
        if self._own:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(-1, number)  # everyone in the namespace but its first process, which is this one
            return
        if number == signal.SIGKILL:
            for _ in range(_ROUNDS):  # who is stopped forks no more
                if not signal_family(signal.SIGSTOP, self._leader, but="TZ"):
                    break
        signal_family(number, self._leader)


def signal_family(number: signal.Signals, leader: int, but: str = "") -> bool:
    """Signal all that descend from this process, except those in the states `but`. True if there was one.

    Groups first: the kernel signals all of a group at once, and nobody forks away from it meanwhile, which a bomb of
    thousands does while they are looked for one by one. Only groups that were made in the family; `leader` may be gone.
    """
    found = {one.pid: one for one in list_family(os.getpid()) if one.state not in but}
    made = {leader, *found} - {0, os.getpgid(0)}
    groups = dict.fromkeys(one.group for one in found.values() if one.group in made)  # a shell's before its jobs'
    for target in (*(-group for group in groups), *found):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(target, number)
    return bool(found)


def _receive(channel: socket.socket) -> _Job | None:
    """The next command; None when nobody will send one any more."""
    said, handles = receive_handles(channel, _HANDLES + 1, spare=1)
    while said and not handles:  # an order to end the last command, which had ended
        said, handles = receive_handles(channel, _HANDLES + 1, spare=1)
    if not handles:
        return None
    with open(handles[0], "rb") as file:
        told: dict[str, Any] = json.load(file)
    return _Job(told["argv"], told["cwd"], told["env"], told["session"], handles=handles[1:])


def receive_handles(channel: socket.socket, count: int, spare: int = 0) -> tuple[bytes, list[int]]:
    """What was said (b"": there is no sender any more), and so many handles that came with it (`spare`: and perhaps so
    many more), which no child inherits; none if it sent something else.

    Not `socket.recv_fds`, which leaves its flags out."""
    size = socket.CMSG_SPACE((count + spare) * plan.WORD.size)
    said, told, _, _ = channel.recvmsg(16, size, socket.MSG_CMSG_CLOEXEC)
    data = b"".join(part for level, kind, part in told if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS))
    handles = [handle for (handle,) in plan.WORD.iter_unpack(data)]
    return said, handles if count <= len(handles) <= count + spare else []


def _spawn(job: _Job) -> int:
    os.chdir(job.cwd)
    numbers = (*range(_HANDLES), plan.MORE_HANDLE)
    actions = [(os.POSIX_SPAWN_DUP2, handle, number) for number, handle in zip(numbers, job.handles, strict=False)]
    return os.posix_spawn(
        _find_program(job), job.argv, job.env, file_actions=actions, setsid=job.session, setsigmask=(), setsigdef=_RESET
    )


def _find_program(job: _Job) -> str:
    name = job.argv[0]
    if "/" in name:
        return name
    for folder in job.env.get("PATH", os.defpath).split(":"):
        path = os.path.join(folder or ".", name)
        if os.access(path, os.X_OK) and not os.path.isdir(path):
            return path
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)


def _has_rows(path: str) -> bool:
    """Is there more than the headline?"""
    try:
        with open(path, "rb") as file:
            return file.read().count(b"\n") > 1
    except OSError as exc:
        return exc.errno != errno.ENOENT  # a kernel without


def _reap() -> tuple[int, int] | None:
    try:
        pid, status = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return None
    return (pid, status) if pid else None


class FamilyMember(NamedTuple):
    """A process that descends from another, as /proc tells of it."""

    pid: int
    state: str
    group: int


def list_family(root: int) -> list[FamilyMember]:
    """All that descend from `root`."""
    children: dict[int, list[FamilyMember]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    fields = file.read(1024).rpartition(b")")[2].split()
            except OSError:
                continue
            if len(fields) > 2:
                made = FamilyMember(int(name), fields[0].decode("ascii", "replace"), int(fields[2]))
                children.setdefault(int(fields[1]), []).append(made)
    found = list(children.get(root, ()))
    for one in found:  # it grows while it is walked
        found += children.get(one.pid, ())
    return found
