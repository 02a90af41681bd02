"""The tests in several processes, forked when all are loaded: `pytest --crew 4`, as `make test` does.

Loading them takes longer than any of them, so it is done once. Each process has its part of the list and goes through
it in order, since neighbours share what is dear to make; one that has nothing left takes half of what another still
has. There are more of them than processors, because many tests wait: for a child, for a socket, for time to pass.
One that does not come back from a test is killed: that is a failure of this test, told with where it was.
"""

from __future__ import annotations

import atexit
import faulthandler
import fcntl
import mmap
import os
import pickle
import random
import resource
import selectors
import signal
import struct
import tempfile
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from nursery import Child, end_nurseries

# What a whole process of these is for: a browser, a nursery. Each begins a part, so that nobody takes some of it away.
ALONE = ("tests/web/", "tests/crash/", "tests/cli/", "tests/tools/")
# What takes or waits longest, idle machine or not. They stand first: at the end nobody waits for one of them alone.
LONG: tuple[str | tuple[str, ...], ...] = (
    "tests/flow/test_fleet.py",
    "tests/flow/test_rolling.py",
    "tests/cli/upkeep/test_update.py",
    "tests/cli/test_first_minutes.py",
    "tests/testing/test_torture.py",
    "tests/gateway/methods/test_params.py",
    "tests/security/test_steps.py",
    "tests/flow/test_two_nodes.py",
    "tests/flow/test_tools.py",
    "tests/flow/test_terminal.py",
    # one process reads the whole source (tests/sources.py)
    ("tests/test_architecture.py", "tests/config/test_inert.py"),
    # one process loads the vendors' clients (8 s of processor time in four of them)
    ("tests/providers/test_sdks.py", "tests/providers/wire/", "tests/gateway/openai/", "tests/testing/test_server.py"),
)
QUICK = 0.005  # seconds under which making ready and clearing up are not told
LOST = 360  # seconds after which a test is killed; before that it is asked to fail by itself (tests/conftest.py)
LOOK = 2.0  # seconds between two looks for such a one
_SIZE = struct.Struct("I")


def arrange(items: list[pytest.Item], crew: int) -> tuple[list[pytest.Item], list[tuple[int, int]]]:
    """All of them in the order of the parts, and where each part begins and ends."""
    long: list[list[pytest.Item]] = [[] for _ in range(crew)]
    alone: list[list[pytest.Item]] = [[] for _ in range(crew)]
    rest: list[pytest.Item] = []
    for item in items:
        begins = [(long, n) for n, start in enumerate(LONG) if item.nodeid.startswith(start)]
        begins += [(alone, -1 - n) for n, start in enumerate(ALONE) if item.nodeid.startswith(start)]
        (begins[0][0][begins[0][1] % crew] if begins else rest).append(item)
    order: list[pytest.Item] = []
    parts = []
    for number in range(crew):
        share = rest[len(rest) * number // crew : len(rest) * (number + 1) // crew]
        part = [*long[number], *alone[number], *share]
        parts.append((len(order), len(order) + len(part)))
        order += part
    return order, parts


class Shares:
    """Who has which part of the list, in memory that all of them see."""

    def __init__(self, parts: list[tuple[int, int]]) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - held until we end
        self._file.truncate(mmap.PAGESIZE)
        self._seen = memoryview(mmap.mmap(self._file.fileno(), mmap.PAGESIZE)).cast("i")
        self._count = len(parts)
        for number, part in enumerate(parts):
            self._put(number, *part)
            self.note(number, -1, -1)

    def take(self, number: int) -> int:
        """The next for this one; -1: nothing is left anywhere."""
        with self._locked():
            first, last = self._get(number)
            if first == last:
                richest = max(range(self._count), key=lambda other: self._get(other)[1] - self._get(other)[0])
                start, last = self._get(richest)
                first = start + (last - start) // 2
                self._put(richest, start, first)
            if first < last:
                self._put(number, first + 1, last)
                return first
        return -1

    def drop(self) -> None:
        """Nobody begins another."""
        with self._locked():
            for number in range(self._count):
                self._put(number, 0, 0)

    def note(self, number: int, now: int, then: int) -> None:
        """What this one does, and what it has taken to do next."""
        self._seen[4 * number + 2], self._seen[4 * number + 3] = now, then

    def look(self, number: int) -> tuple[int, int]:
        return self._seen[4 * number + 2], self._seen[4 * number + 3]

    def _get(self, number: int) -> tuple[int, int]:
        return self._seen[4 * number], self._seen[4 * number + 1]

    def _put(self, number: int, first: int, last: int) -> None:
        self._seen[4 * number], self._seen[4 * number + 1] = first, last

    @contextmanager
    def _locked(self) -> Iterator[None]:
        fcntl.lockf(self._file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.lockf(self._file, fcntl.LOCK_UN)


class Crew:
    """Registered as a plugin when there is to be one."""

    def __init__(self, config: pytest.Config, size: int, lost: float = LOST) -> None:
        self._config = config
        self._size = size
        self._lost = lost
        self.spent: dict[str, list[float]] = {}  # folder -> tests, seconds, seconds of processor time
        self.costs: list[tuple[float, float, str]] = []  # processor time and seconds of each test

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if session.testsfailed or self._config.option.collectonly or len(session.items) < 2:
            return None
        session.items, parts = arrange(session.items, self._size)
        self._session, self._shares = session, Shares(parts)
        self._waiting = selectors.DefaultSelector()
        self._pids: dict[int, int] = {}  # end of a pipe -> who writes there
        self._stacks = [tempfile.TemporaryFile() for _ in parts]  # noqa: SIM115 - where each writes what it does, if asked
        self._since = [(-1, time.monotonic())] * self._size  # what each does, and since when we know
        try:
            for number in range(self._size):
                self._fork(number, -1)
            while self._pids:
                for key, _ in self._waiting.select(LOOK):
                    self._hear(key.fd, key.data)
                self._end_the_lost()
                if session.shouldfail or session.shouldstop:
                    self._shares.drop()
        finally:
            for pid in self._pids.values():
                os.kill(pid, signal.SIGKILL)
            end_nurseries()  # what it took counts
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
        return True

    def _fork(self, number: int, begin: int) -> None:
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            for other in (reading, *self._pids):
                os.close(other)
            faulthandler.register(signal.SIGUSR2, self._stacks[number])
            Hand(self._session, self._shares, number, writing).work(begin)
        os.close(writing)
        self._pids[reading] = pid
        self._waiting.register(reading, selectors.EVENT_READ, number)

    def _hear(self, pipe: int, number: int) -> None:
        size = _read_exactly(pipe, _SIZE.size)
        if len(size) == _SIZE.size:
            self._tell(*pickle.loads(_read_exactly(pipe, _SIZE.unpack(size)[0])))
            return
        self._bury(pipe, number, "the process that ran it ended: {}")

    def _end_the_lost(self) -> None:
        """Whoever has done the same for too long, with all that came of it."""
        for pipe, key in list((self._waiting.get_map() or {}).items()):
            number, pid = key.data, self._pids[pipe]
            now, _ = self._shares.look(number)
            if self._since[number][0] != now:
                self._since[number] = (now, time.monotonic())
            elif time.monotonic() - self._since[number][1] > self._lost:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGUSR2)
                    time.sleep(1)
                    for one in (*_list_family(pid), pid):
                        with suppress(ProcessLookupError):
                            os.kill(one, signal.SIGKILL)
                where = os.pread(self._stacks[number].fileno(), 1 << 20, 0).decode(errors="replace")
                self._bury(pipe, number, f"it was killed after {self._lost} seconds ({{}}), here:\n{where}")

    def _bury(self, pipe: int, number: int, words: str) -> None:
        """One of the crew is dead: what it was at has failed, another goes on."""
        self._waiting.unregister(pipe)
        os.close(pipe)
        _, status = os.waitpid(self._pids.pop(pipe), 0)
        now, then = self._shares.look(number)
        if now >= 0:
            nodeid, location = self._session.items[now].nodeid, self._session.items[now].location
            why = words.replace("{}", str(os.waitstatus_to_exitcode(status)), 1)
            report = pytest.TestReport(nodeid, location, {}, outcome="failed", longrepr=why, when="call")
            self._config.hook.pytest_runtest_logreport(report=report)
            self._shares.note(number, -1, -1)
            self._fork(number, then)

    def _tell(self, nodeid: str, location: Any, reports: list[Any], seconds: float, cpu: float) -> None:
        hook, config = self._config.hook, self._config
        hook.pytest_runtest_logstart(nodeid=nodeid, location=location)
        for data in reports:
            report = hook.pytest_report_from_serializable(config=config, data=data)
            hook.pytest_runtest_logreport(report=report)
        hook.pytest_runtest_logfinish(nodeid=nodeid, location=location)
        folder = self.spent.setdefault("/".join(nodeid.partition("::")[0].split("/")[:2]), [0, 0.0, 0.0])
        for at, more in enumerate((1, seconds, cpu)):
            folder[at] += more
        self.costs.append((cpu, seconds, nodeid))


class Hand:
    """One of the crew, in its own process."""

    def __init__(self, session: pytest.Session, shares: Shares, number: int, pipe: int) -> None:
        self._session = session
        self._shares = shares
        self._number = number
        self._pipe = pipe
        self._reports: list[pytest.TestReport] = []

    def work(self, begin: int) -> None:
        """Until nothing is left; `begin`: with this one. Does not return."""
        code = 1
        try:
            atexit._clear()  # what is registered is the parent's to do
            random.seed()
            plugins = self._session.config.pluginmanager
            plugins.unregister(name="terminalreporter")
            if capture := plugins.getplugin("capturemanager"):  # into files of our own
                capture.stop_global_capturing()
                capture.start_global_capturing()
            plugins.register(self)
            self._run(begin if begin >= 0 else self._shares.take(self._number))
            atexit._run_exitfuncs()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)

    def _run(self, now: int) -> None:
        items, deep = self._session.items, bool(self._session.config.getoption("--costs", None))
        while now >= 0:
            then = self._shares.take(self._number)
            self._shares.note(self._number, now, then)
            item, following = items[now], items[then] if then >= 0 else None
            began, spent = time.monotonic(), _measure_cpu(deep=deep)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            self._send(item, time.monotonic() - began, _measure_cpu(deep=deep) - spent)
            now = then
        self._shares.note(self._number, -1, -1)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or not report.passed or report.duration > QUICK:
            self._reports.append(report)

    def _send(self, item: pytest.Item, seconds: float, cpu: float) -> None:
        hook, config = item.config.hook, item.config
        told = [hook.pytest_report_to_serializable(config=config, report=one) for one in self._reports]
        self._reports.clear()
        data = pickle.dumps((item.nodeid, item.location, told, seconds, cpu))
        left = memoryview(_SIZE.pack(len(data)) + data)
        while left:
            left = left[os.write(self._pipe, left) :]


def _read_exactly(pipe: int, size: int) -> bytes:
    """So many bytes; fewer if nobody writes any more."""
    data = b""
    while len(data) < size and (more := os.read(pipe, size - len(data))):
        data += more
    return data


def _measure_cpu(*, deep: bool = False) -> float:
    """Of this process, and of its children that have ended. `deep`: of those that have not, too (a nursery with what it
    forked, a browser)."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    cpu = sum(one.ru_utime + one.ru_stime for one in used) + Child.spent
    return cpu + (_measure_living() if deep else 0)


def _measure_living() -> float:
    """All that came of this process and lives, with their own children that have ended, in steps of 10 ms."""
    ticks = 0
    for pid in _list_family(os.getpid()):
        with suppress(OSError):  # it ends while we look
            told = Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()
            ticks += sum(int(one) for one in told[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


def _list_family(root: int) -> list[int]:
    """Processes that came of this one."""
    found = [root]
    for pid in found:  # it grows while it is walked
        with suppress(OSError):
            for task in Path("/proc", str(pid), "task").iterdir():
                found += map(int, (task / "children").read_text().split())
    return found[1:]
