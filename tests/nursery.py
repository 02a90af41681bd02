"""Commands that start quickly: a process that has loaded the program once and forks one for each that is wanted.

What is forked is the real command with its own environment, folder and files; only loading the modules is saved: those
named here, and what an earlier command of ours loaded late and told of at its end.
Run as a script it is that process: each packet on its stdin is an order, with the three files that the command gets as
its standard input, output and errors; the answer is a pid.
"""

from __future__ import annotations

import asyncio
import atexit
import fcntl
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from contextlib import suppress
from functools import _lru_cache_wrapper
from itertools import islice
from typing import Any

from powers import drop_capabilities

LOADED = (
    "palinurus.cli.main",
    "palinurus.cli.gateway.serve",
    "palinurus.channels.spool",
    "palinurus.agent.runtimes.choose",
)
READ = "palinurus.config.sections"  # whose caches hold what was read of a configuration
MACHINE = "palinurus.tools.sandbox"  # … and what the kernel allows to who we are, with the programs on the path


class Child:
    """A forked command, with what tests use of `subprocess.Popen`."""

    spent = 0.0  # seconds of processor time of those from another process's nursery that have ended

    def __init__(self, pid: int, ends: str, parent: Nursery) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._end = os.path.join(ends, str(pid))
        self._parent = parent

    def poll(self) -> int | None:
        """How it ended. Raises ChildProcessError if nobody is left who would know."""
        if self.returncode is None:
            gone = self._parent.gone  # asked first: the last thing it does is to write this
            if os.path.exists(self._end):
                with open(self._end) as source:
                    code, spent = source.read().split()
                self.returncode = int(code)
                Child.spent += float(spent) if self._parent.maker != os.getpid() else 0
            elif gone:
                raise ChildProcessError(f"the nursery of {self.pid} was killed")
        return self.returncode

    def wait(self) -> int:
        while self.poll() is None:
            time.sleep(0.002)
        assert self.returncode is not None
        return self.returncode

    def terminate(self) -> None:
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has ended, and nobody has written so yet
                os.kill(self.pid, number)


class Nursery:
    """Use with `with`. What it forked and is still there ends with it. `weak`: modes and owners of files hold all of
    it, root too. `path`: where its commands find programs; one that looks elsewhere asks the machine again."""

    def __init__(self, *, weak: bool = False, path: str = os.environ.get("PATH", "")) -> None:
        self._given = {"weak": weak, "path": path}

    def __enter__(self) -> Nursery:
        self.maker = os.getpid()
        self._folder = tempfile.TemporaryDirectory()
        self._turns = tempfile.TemporaryFile()
        self._turn = threading.Lock()
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            if self._given["weak"]:  # one that has loaded becomes it
                given = {"serve": {**self._given, "ends": self._folder.name}, "env": dict(os.environ), "cwd": "/"}
                self._process: Child | subprocess.Popen[bytes] = nursery().fork((theirs.fileno(), 1, 2), **given)
                return self
            line = [sys.executable, __file__, self._folder.name, json.dumps(self._given)]
            self._process = subprocess.Popen(line, stdin=theirs)
        return self

    def __exit__(self, *exc: object) -> None:
        self._ours.close()
        self._process.wait()
        self._folder.cleanup()
        self._turns.close()

    def start(self, args: list[str], *, env: dict[str, str], cwd: str, log: str, needs: str = "") -> Child:
        """`pal ARGS` in a process of its own; what it prints is added to `log`. `needs`: a module that it will want,
        loaded once for all."""
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        nothing = os.open(os.devnull, os.O_RDONLY)
        try:
            return self.fork((nothing, out, out), args=args, env=env, cwd=cwd, needs=needs)
        finally:
            os.close(out)
            os.close(nothing)

    def fork(self, files: tuple[int, int, int], **order: Any) -> Child:
        """`pal` with these files as its standard ones."""
        with self._turn:
            fcntl.lockf(self._turns, fcntl.LOCK_EX)
            try:
                turn = f"{os.getpid()}.{time.monotonic_ns()}"
                socket.send_fds(self._ours, [json.dumps({**order, "turn": turn}).encode()], files)
                pid, said = self._ours.recv(128).decode().split()
                while said != turn:  # an answer to somebody who was killed before it came
                    pid, said = self._ours.recv(128).decode().split()
                return Child(int(pid), self._folder.name, self)
            finally:
                fcntl.lockf(self._turns, fcntl.LOCK_UN)

    @property
    def gone(self) -> bool:
        """Was it killed? Asked of the socket: it may be another process that started it."""
        looks = select.poll()
        looks.register(self._ours, 0)  # nothing is asked for: an end is told of all the same
        return bool(looks.poll(0))


class Program(subprocess.Popen[str]):
    """`pal ARGS`, forked; all else as with `subprocess.Popen`. (`subprocess.run` for it is `run_program`.)"""

    python = False  # is it `python ARGS`?

    def __init__(self, *args: str, **options: Any) -> None:
        super().__init__(list(args), text=True, **options)

    def _execute_child(self, args: list[str], *given: Any) -> None:
        cwd, env, umask = given[4], given[5], given[19]
        theirs, ours = (given[9], given[12], given[14]), (given[10], given[11], given[13])  # -1: there is none
        files = [number if end == -1 else end for number, end in enumerate(theirs)]
        order = {"args": args, "env": dict(os.environ if env is None else env), "cwd": os.fspath(cwd or os.getcwd())}
        order |= {"python": self.python, "umask": umask, "session": given[20]}
        self._child = nursery().fork((files[0], files[1], files[2]), **order)
        self.pid, self._child_created = self._child.pid, True
        for end, other in zip(theirs, ours, strict=True):
            if other != -1:
                os.close(end)

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        self.returncode = self._child.poll()
        return self.returncode

    def _wait(self, timeout: float | None) -> int:
        end = None if timeout is None else time.monotonic() + timeout
        while self._internal_poll() is None:
            if end is not None and time.monotonic() > end:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            time.sleep(0.002)
        return int(self.returncode)


class PythonProgram(Program):
    """`python ARGS` (a file, -c or -m) where the program's modules are loaded already."""

    python = True


def run_program(
    *args: str, stdin: str = "", timeout: float = 60, kind: type[Program] = Program, **options: Any
) -> subprocess.CompletedProcess[str]:
    """What `pal ARGS` printed, and its exit code."""
    pipe = subprocess.PIPE
    with kind(*args, stdin=pipe, stdout=pipe, stderr=pipe, **options) as process:
        try:
            out, err = process.communicate(stdin, timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    return subprocess.CompletedProcess(list(args), process.returncode, out, err)


_nurseries: list[Nursery] = []


def nursery() -> Nursery:
    """The one of this test process and those that are forked from it, as long as it; another if that was killed."""
    if not _nurseries or _nurseries[-1].gone:
        _nurseries.append(Nursery().__enter__())
        atexit.register(end_nurseries)
    return _nurseries[-1]


def end_nurseries() -> None:
    while _nurseries:
        _nurseries.pop().__exit__()


def _warm() -> None:
    """One message through the program: what the first one compiles, describes and finds out about the machine, every
    command has then."""
    from palinurus.app import App
    from palinurus.clock import SystemClock
    from palinurus.config.load import load_config
    from palinurus.tools.sandbox.children import get_keeper_pool
    from support import inbound

    async def talk(home: str) -> None:
        with open(os.path.join(home, "palinurus.json"), "w") as out:
            out.write('{"agents": {"defaults": {"model": {"primary": "builtin/demo"}}}}')
        app = App(load_config(home, {}).settings, {"HOME": home}, SystemClock())
        await app.start()
        try:
            await app.wait((await app.submit(inbound("list files"))).id)
        finally:
            await app.stop()

    with tempfile.TemporaryDirectory() as home:
        asyncio.run(talk(home))
    _forget(READ)
    get_keeper_pool.cache_clear()  # no two share a process that starts commands


def _forget(modules: str) -> None:
    for name, module in list(sys.modules.items()):
        if name.startswith(modules):
            for one in vars(module).values():
                if isinstance(one, _lru_cache_wrapper):
                    one.cache_clear()


def _serve(ends: str, *, weak: bool, path: str) -> None:
    os.environ["PATH"] = path
    if weak:
        drop_capabilities()
    gc.disable()
    _forget(MACHINE)
    for name in LOADED:
        __import__(name)
    _warm()
    gc.freeze()  # what is loaded is never garbage: looking at it would copy its pages into every child
    gc.enable()
    orders = socket.socket(fileno=os.dup(0))
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    os.set_blocking(reading, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writing)
    living: set[int] = set()
    while True:
        ready, _, _ = select.select([orders, reading], [], [])
        if reading in ready:
            os.read(reading, 4096)
            _reap(living, ends)
        if orders in ready:
            data, files, _, _ = socket.recv_fds(orders, 1 << 20, 3)
            if not data:
                break
            order = json.loads(data)
            if order.get("needs"):
                __import__(order["needs"])
            pid = os.fork()
            if pid == 0:
                _become(order, files, (reading, writing, orders.fileno()), ends)
            for number in files:
                os.close(number)
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(ends, str(pid)))  # of an earlier one of this number
            living.add(pid)
            orders.send(f"{pid} {order['turn']}".encode())
    for pid in living:
        os.kill(pid, signal.SIGKILL)


def _reap(living: set[int], ends: str) -> None:
    for pid in list(living):
        found, status, used = os.wait4(pid, os.WNOHANG)
        if found:
            living.discard(pid)
            _learn(os.path.join(ends, f"{pid}.loaded"))
            half = os.path.join(ends, f"{pid}.half")
            with open(half, "w") as out:
                out.write(f"{os.waitstatus_to_exitcode(status)} {used.ru_utime + used.ru_stime}")
            os.rename(half, os.path.join(ends, str(pid)))


def _learn(told: str) -> None:
    """Load what a command had to load by itself: the next one has it."""
    with suppress(FileNotFoundError), open(told) as source:
        for name in source.read().split():
            __import__(name)
        gc.freeze()
        os.unlink(told)


def _become(order: dict[str, Any], files: list[int], ours: tuple[int, ...], ends: str) -> None:
    """Turn into the command. Does not return."""
    from palinurus.cli.main import main

    code, known = 0 if order.get("serve") else 1, len(sys.modules)
    # A gateway looks once through all that was loaded: here it would copy what is the nursery's to do so.
    gc.unfreeze = lambda: None
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number, source in enumerate(files):
            os.dup2(source, number)
        for source in (*ours, *files):
            os.close(source)
        # Streams of its own: those from before may believe that they can seek.
        sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
        if order["env"].get("PATH") != os.environ["PATH"]:
            _forget(MACHINE)
        os.environ.clear()
        os.environ.update(order["env"])
        time.tzset()
        os.chdir(order["cwd"])
        if order.get("session"):
            os.setsid()
        if order.get("umask", -1) >= 0:
            os.umask(order["umask"])
        if order.get("serve"):
            _serve(**order["serve"])
            return
        sys.argv = ["pal", *order["args"]]
        code = _run_python(order["args"]) if order.get("python") else main(order["args"])
        sys.stdout.flush()
    except SystemExit as exc:
        code = exc.code if isinstance(exc.code, int) else 1
    except BaseException:
        traceback.print_exc()  # as the interpreter would
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        # The last ones; to look at all their names would copy five hundred pages, two milliseconds.
        late = [
            name for name in islice(reversed(sys.modules), len(sys.modules) - known) if name.startswith("palinurus.")
        ]
        if late:
            with suppress(OSError), open(os.path.join(ends, f"{os.getpid()}.loaded"), "w") as out:
                out.write("\n".join(late[::-1]))
        os._exit(code)


def _run_python(args: list[str]) -> int:
    """As the interpreter would: from a file, `-c CODE` or `-m MODULE`."""
    _forget(MACHINE)
    first = os.path.dirname(args[0]) if args[0][0] != "-" else os.getcwd()
    sys.path[:1] = [first, *os.environ.get("PYTHONPATH", "").split(os.pathsep)]  # instead of where the tests are
    sys.argv = args[1:] if args[0] == "-m" else args
    if args[0] == "-m":
        runpy.run_module(args[1], run_name="__main__", alter_sys=True)
    elif args[0] == "-c":
        sys.argv = ["-c", *args[2:]]
        exec(compile(args[1], "<string>", "exec"), {"__name__": "__main__"})
    else:
        runpy.run_path(args[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    _serve(sys.argv[1], **json.loads(sys.argv[2]))
