"""The gateway's side of keepers: a child that is started by one, and the starters and keepers that are kept ready.

Starting a command is one message to a keeper that stands in the sandbox already: one that has just served another
command there and is as it was, or one that was made ahead. Nothing here waits: what happens to a child is read from its
channel (`fileno`), where that is told.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import select
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import IO, NamedTuple

from palinurus.clock import Clock, SystemClock
from palinurus.core.types.sandbox import EPHEMERAL_PORTS, PortRanges, ProcessLimits, SandboxKind, SandboxSpec
from palinurus.tools.sandbox import plan, syscalls
from palinurus.tools.sandbox.bubblewrap import wrap_bubblewrap
from palinurus.tools.sandbox.plan import KeeperLimits, KeeperPlan
from palinurus.tools.sandbox.system import make_own_command

SPARES = 6  # keepers kept ready
AT_ONCE = 3  # … of them for one sandbox
SERVICE = 60.0  # seconds after its first command in which a keeper takes another one
STARTERS = 6
READY = 30.0  # seconds a keeper may take on a busy machine until it is given up
_NO_SANDBOX = "the sandbox could not be made (are namespaces refused to this user?)"
_CLOSED = -signal.SIGKILL
_LAST_READ = 32  # the owner's, their tools and the session's come last; those of the system do not change


def has_keepers() -> bool:
    """Can children be kept here? Everywhere else they are started plainly."""
    return syscalls.detect_machine() is not None


class ChildHandles(NamedTuple):
    """What the child gets as 0, 1 and 2."""

    stdin: int
    stdout: int
    stderr: int
    more: tuple[int, ...] = ()  # one at most, which a kept child finds as `plan.MORE_HANDLE`


class KeptChild:
    """A command with its keeper. Looks like a Popen to those who wait for it; `close` lets go of it, which ends it.

    `pid` is the keeper's: it is there as long as anything of the command is. 0 until it is known."""

    def __init__(self, channel: socket.socket, pid: int = 0) -> None:
        self._channel = channel
        self.pid = pid
        self.returncode: int | None = None
        self.started = False
        self.failure: OSError | None = None
        self.left = 0  # processes that were still running when the command had ended, and were ended
        self.use_until: float | None = None  # its keeper takes no other command after that; None: has had none yet
        self.give_back: Callable[[KeptChild], None] | None = None  # to whom its keeper goes after it; None: it ends
        self._again = False  # its keeper waits for another command
        self.stdin: IO[bytes] | None = None
        self.stdout: IO[bytes] | None = None
        self.stderr: IO[bytes] | None = None

    def fileno(self) -> int:
        return self._channel.fileno()

    def send_job(
        self, argv: Sequence[str], cwd: str, env: Mapping[str, str], handles: ChildHandles, *, session: bool
    ) -> None:
        """Tell the keeper what to start. Raises OSError if it is gone."""
        job = json.dumps({"argv": list(argv), "cwd": cwd, "env": dict(env), "session": session})
        with _hold_text(job.encode("utf-8", "surrogateescape")) as memory:
            socket.send_fds(self._channel, [b"J"], [memory.fileno(), *handles[:3], *handles.more])

    def poll(self) -> int | None:
        """The exit code as subprocess has it, None while it runs."""
        while self.returncode is None and self._take(socket.MSG_DONTWAIT):
            pass
        return self.returncode

    def _take(self, flags: int) -> bool:
        """Read one message. False if there is none."""
        try:
            data = self._channel.recv(64, flags)
        except BlockingIOError:
            return False
        except ConnectionResetError:
            return True  # it ended before it had read all we said; what it said comes after this error
        except OSError:
            data = b""
        what, words = data[:1], [word for (word,) in plan.WORD.iter_unpack(data[1:])]
        if what == plan.PID:
            self.pid = words[0]
        elif what == plan.STARTED:
            self.started = True
        elif what == plan.EXITED:
            self.returncode, self.left = os.waitstatus_to_exitcode(words[0]), words[1]
            self._again = bool(words[2])
        elif what == plan.FAILED:
            why = _NO_SANDBOX if words[0] == errno.EIO else os.strerror(words[0])
            self.failure = OSError(words[0], why)
            self.returncode = 127
        else:  # it is gone without a word: somebody killed it, and with it everything
            self.returncode = _CLOSED
        return True

    def wait(self, timeout: float | None = None) -> int:
        """The exit code. Raises TimeoutExpired."""
        while (code := self.poll()) is None:  # a few messages at most come before the last one
            if not select.select([self._channel], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("", timeout or 0)
        return code

    def wait_started(self) -> None:
        """Return when it runs, or has run. Raises OSError if it could not be started."""
        while self.poll() is None and not self.started:
            if not select.select([self._channel], [], [], READY)[0]:
                raise TimeoutError(errno.ETIMEDOUT, "the sandbox was not ready in time")
        if self.failure is not None:
            raise self.failure

    def terminate(self) -> None:
        """Ask everything that descends from the command to end."""
        self._say(plan.TERMINATE)

    def kill(self) -> None:
        """End everything that descends from the command."""
        self._say(plan.KILL)

    def _say(self, what: bytes) -> None:
        with contextlib.suppress(OSError):
            self._channel.send(what)

    def communicate(self, timeout: float) -> tuple[bytes, bytes]:
        """What it printed on its pipes, when it has ended. Raises TimeoutExpired after `timeout` seconds of silence."""
        kept: dict[IO[bytes], bytearray] = {pipe: bytearray() for pipe in (self.stdout, self.stderr) if pipe}
        open_pipes = list(kept)
        while open_pipes:
            ready, _, _ = select.select(open_pipes, [], [], timeout)
            if not ready:
                raise subprocess.TimeoutExpired("", timeout)
            for pipe in ready:
                data = os.read(pipe.fileno(), 1 << 16)
                kept[pipe] += data
                if not data:
                    open_pipes.remove(pipe)
        self.wait(timeout)
        out, err = (bytes(kept[pipe]) if pipe else b"" for pipe in (self.stdout, self.stderr))
        return out, err

    def close(self) -> None:
        """Let go. What still runs is ended by the keeper, which sees its channel close. One that waits for another
        command goes back to where it came from."""
        if self._again and self.give_back is not None:
            self._again = False
            # a socket of its own: nothing that is said to this child from now on reaches the next one
            following = KeptChild(_make_channel(self._channel.detach()), self.pid)
            following.use_until = self.use_until
            self.give_back(following)
        self._channel.close()
        if self.returncode is None:
            self.returncode = _CLOSED


def _make_channel(handle: int) -> socket.socket:
    """Told what it is, a socket need not ask."""
    return socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, fileno=handle)


def _hold_text(data: bytes) -> io.FileIO:
    """A file in memory, at its beginning."""
    made = io.FileIO(os.memfd_create("palinurus", os.MFD_CLOEXEC), "r+")
    made.write(data)
    made.seek(0)
    return made


def make_plan(cell: SandboxSpec) -> KeeperPlan:
    """The sandbox as its keeper gets it. Raises OSError where bubblewrap is asked for and missing."""
    limits = cell.limits
    memory = limits.memory_bytes
    if memory < 0:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * 3 // 4
    first, last = EPHEMERAL_PORTS
    made = KeeperPlan(
        cell.kind,
        cell.read,
        cell.write,
        cell.connect,
        listen=any(low <= first and last <= high for low, high in cell.connect or ()),
        limits=KeeperLimits(
            limits.files,
            limits.file_bytes,
            memory,
            limits.processes,
            cpu_seconds=limits.cpu_seconds,
            shm_bytes=limits.shm_bytes,
        ),
        unix=cell.unix,
        alone=cell.alone,
        nested=cell.nested,
        temporary=cell.temporary,
        hide=cell.hide,
        listed=cell.listed,
    )
    if cell.kind != "bubblewrap":
        return made
    inner = make_own_command("palinurus.tools.sandbox.keeper")
    return made._replace(wrapper=wrap_bubblewrap(inner, "/", made))


class StarterKey(NamedTuple):
    """Sandboxes that one starter serves."""

    kind: SandboxKind
    connect: PortRanges | None
    limits: ProcessLimits


class SpareKey(NamedTuple):
    """A sandbox and what stands at its paths now: rules and mounts are about the folder, not about its name."""

    cell: SandboxSpec
    stands: tuple[tuple[int, int], ...]
    system: int  # when something in /etc was last made, renamed or removed


class KeeperPool:
    """Starters and spare keepers, both for the sandboxes used last. `ahead`: from the second command of a sandbox on
    the next keeper is made while one works (the first one's comes back when its command has ended)."""

    def __init__(self, clock: Clock | None = None, *, ahead: bool = True) -> None:
        self._clock = clock or SystemClock()
        self._ahead = ahead
        self._lock = threading.Lock()
        self._starters: dict[StarterKey, socket.socket] = {}
        self._spares: dict[SpareKey, list[KeptChild]] = {}
        self._closed = False

    def take(self, cell: SandboxSpec) -> KeptChild:
        """A keeper for one command. Raises OSError."""
        if cell.hide and cell.kind == "landlock":  # what lies beside hidden paths is opened as it is at the start
            with self._lock:
                return self._ask(cell)
        key, now = _identify_sandbox(cell), self._clock.monotonic()
        with self._lock:
            for stale in [other for other in self._spares if other.cell == cell and other != key]:
                self._drop(stale)
            known = key in self._spares
            ready = self._spares.pop(key, [])
            self._spares[key] = ready  # the last one used is the last one dropped
            taken = _pick(ready, now) or self._ask(cell)
            if known and not ready and self._ahead:  # most sandboxes of a one-shot never see a second command
                ready.append(self._ask(cell))
            self._bound()
        taken.use_until = taken.use_until or now + SERVICE
        taken.give_back = lambda child: self._keep(key, child)
        return taken

    def _keep(self, key: SpareKey, child: KeptChild) -> None:
        """One that has served its command, and waits for another."""
        with self._lock:
            ready = self._spares.get(key)
            if ready is None or len(ready) >= AT_ONCE or self._closed:
                child.close()
                return
            ready.append(child)
            self._bound()

    def _bound(self) -> None:
        while max(len(self._spares), sum(map(len, self._spares.values()))) > SPARES:
            oldest = next(iter(self._spares))
            if self._spares[oldest]:
                self._spares[oldest].pop(0).close()
            if not self._spares[oldest]:
                del self._spares[oldest]

    def _drop(self, key: SpareKey) -> None:
        for child in self._spares.pop(key):
            child.close()

    def _ask(self, cell: SandboxSpec) -> KeptChild:
        key = StarterKey(cell.kind, cell.connect, cell.limits)
        for _ in range(2):
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs, _hold_text(json.dumps(make_plan(cell)).encode()) as memory:
                starter = self._starters.pop(key, None) or _start_starter()
                try:
                    socket.send_fds(starter, [b"K"], [theirs.fileno(), memory.fileno()])
                except OSError:  # it died; a new one does it
                    starter.close()
                    ours.close()
                    continue
            self._starters[key] = starter
            for other in list(self._starters)[: max(len(self._starters) - STARTERS, 0)]:
                self._starters.pop(other).close()
            return KeptChild(ours)
        raise OSError(errno.EPIPE, "no process could be started that keeps commands")

    def close(self) -> None:
        """Let go of everything that is kept ready. What runs goes on."""
        with self._lock:
            self._closed = True
            for key in list(self._spares):
                self._drop(key)
            for starter in self._starters.values():
                starter.close()
            self._starters.clear()


def _pick(ready: list[KeptChild], now: float) -> KeptChild | None:
    """One that lives and has not served too long, taken from them; the others go."""
    while ready:
        child = ready.pop()
        if child.poll() is None and (child.use_until is None or now < child.use_until):
            return child
        child.close()
    return None


def _identify_sandbox(cell: SandboxSpec) -> SpareKey:
    own = (path for path in cell.write if not path.startswith("/dev/"))
    stands = tuple(map(_identify, (*own, *cell.hide, *cell.read[-_LAST_READ:])))
    return SpareKey(cell, stands, os.stat("/etc").st_mtime_ns)


def _identify(path: str) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return 0, 0
    return found.st_dev, found.st_ino


def _start_starter() -> socket.socket:
    """Its end of the requests. It ends when that is closed, and is waited for by a thread of its own."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        line = make_own_command("palinurus.tools.sandbox.starter", str(theirs.fileno()))
        process = subprocess.Popen(
            line,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"},
            pass_fds=(theirs.fileno(),),
            start_new_session=True,
        )
    threading.Thread(target=process.wait, name="starter", daemon=True).start()
    return ours


get_keeper_pool = cache(KeeperPool)  # one for the process, whose children they are
