"""Gateways that start quickly: a process that has loaded the program once and forks one for each that is wanted.

What is forked is the real command with its own environment, folder and files; only loading the modules is saved.
Run as a script it is that process: it reads orders (JSON lines) on its stdin and answers each with a pid.
"""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import select
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback
from functools import cache
from typing import Any

LOADED = (
    "palinurus.cli.main",
    "palinurus.cli.gateway.serve",
    "palinurus.channels.spool",
    "palinurus.agent.runtimes.choose",
)


class Child:
    """A forked command, with what tests use of `subprocess.Popen`."""

    def __init__(self, pid: int, ends: str) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._end = os.path.join(ends, str(pid))

    def poll(self) -> int | None:
        if self.returncode is None and os.path.exists(self._end):
            with open(self._end) as source:
                self.returncode = int(source.read())
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
            os.kill(self.pid, number)


class Nursery:
    """Use with `with`. What it forked and is still there ends with it."""

    def __enter__(self) -> Nursery:
        self._folder = tempfile.TemporaryDirectory()
        self._process = subprocess.Popen(
            [sys.executable, __file__, self._folder.name], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        return self

    def __exit__(self, *exc: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        self._folder.cleanup()

    def start(
        self, args: list[str], *, env: dict[str, str], cwd: str, log: str, needs: str = "", weak: bool = False
    ) -> Child:
        """`pal ARGS` in a process of its own; what it prints is added to `log`. `needs`: a module that it will want,
        loaded once for all. `weak`: modes and owners of files hold it, root too."""
        assert self._process.stdin is not None and self._process.stdout is not None
        order = {"args": args, "env": env, "cwd": cwd, "log": log, "needs": needs, "weak": weak}
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()
        return Child(int(self._process.stdout.readline()), self._folder.name)


@cache
def nursery() -> Nursery:
    """The one of this test process, and as long as it."""
    made = Nursery().__enter__()
    atexit.register(made.__exit__)
    return made


def _serve(ends: str) -> None:
    for name in LOADED:
        __import__(name)
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    os.set_blocking(reading, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writing)
    living: set[int] = set()
    waiting = b""
    while True:
        ready, _, _ = select.select([0, reading], [], [])
        if reading in ready:
            os.read(reading, 4096)
            _reap(living, ends)
        if 0 in ready:
            data = os.read(0, 1 << 20)
            if not data:
                break
            *orders, waiting = (waiting + data).split(b"\n")
            for order in map(json.loads, orders):
                if order["needs"]:
                    __import__(order["needs"])
                pid = os.fork()
                if pid == 0:
                    _become(order, (reading, writing))
                living.add(pid)
                os.write(1, b"%d\n" % pid)
    for pid in living:
        os.kill(pid, signal.SIGKILL)


def _reap(living: set[int], ends: str) -> None:
    for pid in list(living):
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            living.discard(pid)
            half = os.path.join(ends, f"{pid}.half")
            with open(half, "w") as out:
                out.write(str(os.waitstatus_to_exitcode(status)))
            os.rename(half, os.path.join(ends, str(pid)))


def _become(order: dict[str, Any], ours: tuple[int, int]) -> None:
    """Turn into the command. Does not return."""
    from palinurus.cli.main import main

    code = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number in ours:
            os.close(number)
        nothing = os.open(os.devnull, os.O_RDONLY)
        log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for source, number in ((nothing, 0), (log, 1), (log, 2)):
            os.dup2(source, number)
        os.close(nothing)
        os.close(log)
        os.environ.clear()
        os.environ.update(order["env"])
        os.chdir(order["cwd"])
        if order["weak"]:
            drop_capabilities()
        sys.argv = ["pal", *order["args"]]
        code = main(order["args"])
        sys.stdout.flush()
    except SystemExit as exc:
        code = exc.code if isinstance(exc.code, int) else 1
    except BaseException:
        traceback.print_exc()  # as the interpreter would
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def drop_capabilities() -> None:
    """Let root be a user like others, and what it starts: none of its capabilities is in force."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(28, 0b11, 0, 0, 0)  # PR_SET_SECUREBITS, NOROOT: programs get no capabilities for being root's
    header = struct.pack("Ii", 0x20080522, 0)  # version 3, this process
    if libc.capset(header, struct.pack("6I", *[0] * 6)) != 0:
        raise OSError(ctypes.get_errno(), "capset")


if __name__ == "__main__":
    _serve(sys.argv[1])
