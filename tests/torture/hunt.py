"""Mutation testing of the shells that promise durability: `make torture` runs it, `ARGS=dispatch` picks files.

    python tests/torture/hunt.py [WORDS] [--every N] [--minutes M] [--jobs N] [--hand] [--list] [--log FILE]

For every file of TARGETS: its tests are collected once, run once to see which lines each passes, and then, for every
mutant, a fork of that process changes the code, in memory and in a copy of the tree for the processes that tests start,
and runs the tests that pass the changed line, until one fails. What survives is shown to the wider tests of the file in
the same way. Prints killed, survived and equivalent (`targets` says
why nobody can notice those; they are not run), and the survivors. A file is left after `--minutes`: its mutants come in
an order that is shuffled, always in the same way, so that those that were tried are a fair sample. With `--log` a hunt
goes on where another was stopped: what that file has as killed, function for function, is not tried again.
"""

from __future__ import annotations

import argparse
import ast
import ctypes
import hashlib
import importlib
import os
import pickle
import random
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import types
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent))

from torture.mutate import HITS, Mutant, make_hand_mutant, make_mutants, mark_lines  # noqa: E402
from torture.targets import EQUIVALENT, HAND, TARGETS  # noqa: E402

MOST = 5.0  # seconds of processor time that the tests of others may take for a mutant
SLACK = 3.0  # seconds a test may wait besides five times what it took without a mutant
SLICE = 0.2  # seconds between two looks at one that says nothing
TICKS = os.sysconf("SC_CLK_TCK")
STUCK = "killed (stuck)"


class Passed(NamedTuple):
    """A test without a mutant: the lines of the file that it passes, its seconds, and those of the processor."""

    lines: frozenset[int]
    seconds: float
    work: float


def die_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def find_function(source: str, scope: str) -> str:
    """The text of the function or method with this qualified name."""
    found: ast.AST | None = ast.parse(source)
    for name in scope.split(".") if scope else ():
        within = [] if found is None else list(ast.walk(found))
        found = next((one for one in within if getattr(one, "name", "") == name and hasattr(one, "body")), None)
    return ast.unparse(found) if found is not None and scope else ""


class Log:
    """Verdicts in a file; the last one about a mutant counts. "": nothing is kept."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._known: dict[str, str] = {}
        if path and Path(path).exists():
            rows = [line.split("\t") for line in Path(path).read_text().splitlines()]
            self._known = {row[0]: row[1] for row in rows if len(row) == 3}

    def find_killer(self, mutant: Mutant) -> str:
        verdict = self._known.get(self._key(mutant), "")
        return verdict if verdict.startswith("killed") else ""

    def add(self, mutant: Mutant, verdict: str) -> None:
        if self._path:
            with open(self._path, "a") as out:
                out.write(f"{self._key(mutant)}\t{verdict}\t{mutant.name}\n")

    def _key(self, mutant: Mutant) -> str:
        """The function it is in, as the mutant has it: changes elsewhere in the file leave the verdict."""
        text = find_function(mutant.source, mutant.scope) or mutant.source
        return hashlib.sha256(f"{mutant.file}\0{mutant.scope}\0{text}".encode()).hexdigest()[:20]


class Hunter:
    """A pytest plugin: instead of running the tests, hunts the mutants of one file with them."""

    def __init__(
        self, target: str, mutants: list[Mutant], copy: Path, *, out: TextIO, log: Log, seconds: float
    ) -> None:
        self.target, self.mutants, self.out, self.log, self.seconds = target, mutants, out, log, seconds
        self.file = copy / "palinurus" / target
        self.judged = 0
        self.kills: Counter[str] = Counter()  # who has killed goes first: neighbours often die of the same test
        self.red: list[str] = []

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        name = "palinurus." + self.target.removesuffix(".py").replace("/", ".")
        module = importlib.import_module(name)
        assert module.__file__ == str(self.file), (module.__file__, self.file)
        found = self._in_fork(lambda tell: tell(pickle.dumps(list(self._watch(session.items, module)))), [1200.0])
        tests = pickle.loads(found) if found else []
        passed: dict[str, Passed] = {}
        for nodeid, (fine, one) in tests:
            if fine:
                passed[nodeid] = one
            else:  # it judges nobody, and the run is no good
                self.red.append(nodeid)
        if not passed:
            return True
        original, end = self.file.read_text(), time.monotonic() + self.seconds
        for mutant in self.mutants:
            self.judged += 1
            if time.monotonic() > end:
                self.out.write(f"untried\t{mutant.name}\n")
                continue
            self.file.write_text(mutant.source)
            verdict = self._judge(mutant, session.items, passed, module)
            self.file.write_text(original)
            self.log.add(mutant, verdict)
            self.out.write(f"{verdict}\t{mutant.name}\n")
            self.out.flush()
        return True

    # --- which tests pass which lines

    def _watch(self, items: list[pytest.Item], module: types.ModuleType) -> Iterator[tuple[str, tuple[bool, Passed]]]:
        hits: set[int] = set()
        setattr(module, HITS, hits)
        put_code(module, mark_lines(self.file.read_text()))
        for item in items:
            hits.clear()
            begun, worked = time.monotonic(), time.process_time()
            fine = run_test(item) or run_test(item)  # once may be the machine's
            took = time.monotonic() - begun, time.process_time() - worked
            yield item.nodeid, (fine, Passed(frozenset(hits), *took))

    # --- one mutant

    def _judge(
        self, mutant: Mutant, items: list[pytest.Item], passed: dict[str, Passed], module: types.ModuleType
    ) -> str:
        chosen = choose_tests(
            mutant, [item.nodeid for item in items if item.nodeid in passed], passed, TARGETS[self.target].processes
        )
        if not chosen:
            return "survived (no test comes by)"
        chosen.sort(key=lambda nodeid: -self.kills[nodeid])
        by_id = {item.nodeid: item for item in items}

        def work(tell: Callable[[bytes], None]) -> None:
            put_code(module, mutant.source)
            for nodeid in chosen:
                if not run_test(by_id[nodeid]):
                    tell(b"!" + nodeid.encode())
                    return
                tell(b".")

        said = self._in_fork(work, [5 * passed[nodeid].seconds + SLACK for nodeid in chosen])
        if said is None:
            return STUCK
        if b"!" in said:
            killer = said.partition(b"!")[2].decode()
            self.kills[killer] += 1
            return "killed by " + killer
        return "survived" if len(said) == len(chosen) else "killed (died)"

    def _in_fork(self, work: Callable[[Callable[[bytes], None]], None], limits: list[float]) -> bytes | None:
        """What `work` tells; None if it says nothing for so many seconds (one after each byte), those not counted that
        it waits for a processor."""
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.setsid()
            die_with_parent()
            os.close(reading)
            nothing = os.open(os.devnull, os.O_RDWR)
            for number in (0, 1, 2):
                os.dup2(nothing, number)

            def tell(data: bytes) -> None:
                while data:
                    data = data[os.write(writing, data) :]

            try:
                work(tell)
            finally:
                os._exit(0)
        os.close(writing)
        said, spent, worked = b"", 0.0, 0
        try:
            while spent < limits[min(len(said), len(limits) - 1)]:
                if not select.select([reading], [], [], SLICE)[0]:
                    before, (worked, waits) = worked, watch_session(pid)
                    did = (worked - before) / TICKS
                    spent += SLICE if waits and did < SLICE / 10 else did
                    continue
                got = os.read(reading, 1 << 16)
                if not got:
                    return said
                said, spent = said + got, 0.0
                if b"!" in said and said[:1] in b".!":
                    return said
            return None
        finally:
            os.close(reading)
            for kill in (os.killpg, os.kill):
                try:
                    kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            os.waitpid(pid, 0)


def watch_session(leader: int) -> tuple[int, bool]:
    """What its processes have worked so far, in ticks, and whether all of their threads wait for something."""
    ticks, waits = 0, True
    for pid in (name for name in os.listdir("/proc") if name.isdigit()):
        try:
            about = Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()
            if int(about[3]) != leader:
                continue
            ticks += int(about[11]) + int(about[12])
            for task in os.listdir(f"/proc/{pid}/task"):
                state = Path("/proc", pid, "task", task, "stat").read_text().rpartition(")")[2].split()[0]
                waits = waits and state not in "RD"
        except (OSError, IndexError):
            continue  # it has ended
    return ticks, waits


def run_test(item: pytest.Item) -> bool:
    """Did it pass, or was it skipped?"""
    reports: list[pytest.TestReport] = []

    class Ear:
        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            reports.append(report)

    ear = Ear()
    item.config.pluginmanager.register(ear)
    try:
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
    finally:
        item.config.pluginmanager.unregister(ear)
    return not any(report.failed for report in reports)


def choose_tests(mutant: Mutant, order: list[str], passed: dict[str, Passed], processes: tuple[str, ...]) -> list[str]:
    """The tests that come by the mutant's line: the file's own, then the quickest others, as long as MOST lasts, then
    those whose processes do. A mutant outside of functions is everybody's."""
    stem = Path(mutant.file).stem
    here = [
        nodeid for nodeid in order if not mutant.scope or any(line in passed[nodeid].lines for line in mutant.lines)
    ]
    own = [nodeid for nodeid in here if f"test_{stem}" in nodeid.partition("::")[0]]
    starts = tuple(f"tests/{name}" for name in processes)
    apart = [nodeid for nodeid in order if nodeid.startswith(starts) and nodeid not in own] if starts else []
    chosen, spent = sorted(own, key=lambda nodeid: passed[nodeid].work), 0.0
    for nodeid in sorted({*here} - {*own, *apart}, key=lambda nodeid: passed[nodeid].work):
        spent += passed[nodeid].work
        if spent > MOST:
            break
        chosen.append(nodeid)
    return chosen + apart


def put_code(module: types.ModuleType, source: str | ast.Module) -> None:
    """Let the functions of a loaded module do what `source` says; tables of the module that differ are replaced."""
    made: dict[str, types.CodeType] = {}

    def gather(code: types.CodeType) -> None:
        for const in code.co_consts:
            if isinstance(const, types.CodeType):
                made[const.co_qualname] = const
                gather(const)

    whole = compile(source, str(module.__file__), "exec")
    gather(whole)
    for function in list_functions(module):
        code = made.get(function.__qualname__)
        if code is not None and code.co_freevars == function.__code__.co_freevars:
            function.__code__ = code
    fresh: dict[str, Any] = {"__name__": module.__name__, "__file__": module.__file__, HITS: set()}
    exec(whole, fresh)  # nothing happens on import
    for name, value in fresh.items():
        old = vars(module).get(name)
        if name.strip("_").isupper() and repr(old) != repr(value):
            for other in list(sys.modules.values()):
                if vars(other).get(name) is old:
                    setattr(other, name, value)


def list_functions(module: types.ModuleType) -> Iterator[types.FunctionType]:
    """Those that are written in it, methods too."""
    places = [module, *(v for v in vars(module).values() if isinstance(v, type) and v.__module__ == module.__name__)]
    for place in places:
        for value in vars(place).values():
            found = getattr(value, "__wrapped__", None) or getattr(value, "__func__", None)
            found = found or (value.fget if isinstance(value, property) else value)
            if isinstance(found, types.FunctionType) and found.__module__ == module.__name__:
                yield found


def collect_mutants(target: str, every: int, by_hand: bool) -> list[Mutant]:
    """Those of a file that are hunted: each `every`-th, with those made by hand."""
    source = (ROOT / "src" / "palinurus" / target).read_text()
    hand = [make_hand_mutant(target, source, old, new) for file, old, new in HAND if file == target]
    made = [] if by_hand or TARGETS[target].by_hand else make_mutants(target, source)[::every]
    random.Random(target).shuffle(made)
    return hand + made


def is_equivalent(mutant: Mutant) -> bool:
    return any(mutant.file == file and what in mutant.what for file, what, _reason in EQUIVALENT)


def hunt_one(target: str, options: argparse.Namespace) -> int:
    """In a process of its own, with a copy of the package first in its path. Prints one line a mutant."""
    copy = Path(os.environ["PYTHONPATH"].partition(os.pathsep)[0])
    found = collect_mutants(target, options.every, options.hand)
    if options.left:
        left = Path(options.left).read_text().splitlines()
        found = [mutant for mutant in found if mutant.name in left]
    for mutant in filter(is_equivalent, found):
        print(f"equivalent\t{mutant.name}")
    log = Log(options.log)
    mutants = [mutant for mutant in found if not is_equivalent(mutant)]
    for mutant in filter(log.find_killer, mutants):
        print(f"{log.find_killer(mutant)}\t{mutant.name}")
    mutants = [mutant for mutant in mutants if not log.find_killer(mutant)]
    if not mutants:
        return 0
    hunter = Hunter(target, mutants, copy, out=sys.stdout, log=log, seconds=options.minutes * 60)
    row = TARGETS[target]
    tests = [str(HERE.parent / name) for name in (row.wide if options.left else row.tests)]
    with open(os.devnull, "w") as nothing:
        out, sys.stdout = sys.stdout, nothing
        # tests of a fleet share a database server, which forks cannot
        pytest.main(
            ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-x", "-k", "not fleet", *tests], plugins=[hunter]
        )
        sys.stdout = out
    for nodeid in hunter.red:
        print(f"red without a mutant: {nodeid}")
    return 1 if hunter.red or hunter.judged < len(mutants) else 0


def start_one(target: str, options: argparse.Namespace, base: Path, left: str = "") -> subprocess.Popen[str]:
    """`left`: a file with the names of mutants that survived the file's own tests."""
    copy = base / target.replace("/", ".")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(ROOT / "src" / "palinurus", copy / "palinurus", ignore=shutil.ignore_patterns("static"))
    temp = copy / "tmp"
    temp.mkdir()
    env = {
        **os.environ,
        "PYTHONPATH": f"{copy}{os.pathsep}{HERE.parent}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "TMPDIR": str(temp),
    }
    argv = [
        sys.executable,
        str(HERE / "hunt.py"),
        "--one",
        target,
        *("--every", str(options.every), "--minutes", str(options.minutes)),
        *(["--hand"] if options.hand else []),
        *(["--left", left] if left else []),
        *(["--log", options.log] if options.log else []),
    ]
    return subprocess.Popen(argv, env=env, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def read_verdicts(process: subprocess.Popen[str]) -> Iterator[str]:
    """Its lines; survivors are shown as they come."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("survived"):
            print(f"  {line.rstrip()}", file=sys.stderr, flush=True)
        yield line.rstrip("\n")
    process.wait()


def look_wider(target: str, out: list[str], options: argparse.Namespace, base: Path) -> list[str]:
    """The verdicts, with those of the wider tests for what survived the file's own."""
    survived = [line for line in out if line.startswith("survived")]
    if options.own or not survived or not TARGETS[target].wide:
        return out
    left = base / "left"
    left.write_text("\n".join(line.partition("\t")[2] for line in survived))
    return [line for line in out if line not in survived] + list(
        read_verdicts(start_one(target, options, base, str(left)))
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("words", nargs="*", help="only files whose name has one of these")
    parser.add_argument("--every", type=int, default=1, help="only each n-th mutant")
    parser.add_argument("--minutes", type=float, default=60.0, help="for each file at most, once its tests were run")
    parser.add_argument("--jobs", type=int, default=1, help="files at a time")
    parser.add_argument("--hand", action="store_true", help="only the mutants made by hand")
    parser.add_argument(
        "--own", action="store_true", help="ask the file's own tests only: quick, where tests are written"
    )
    parser.add_argument("--list", action="store_true", help="say which there are")
    parser.add_argument("--log", default="", help="a file for verdicts, and of those of an earlier run")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--left", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        return hunt_one(options.one, options)
    wanted = [t for t in TARGETS if not options.words or any(word in t for word in options.words)]
    if options.list:
        for mutant in (m for target in wanted for m in collect_mutants(target, options.every, options.hand)):
            print(mutant.name)
        return 0
    with tempfile.TemporaryDirectory(prefix="mutants") as folder:
        return hunt_all(wanted, options, Path(folder))


def hunt_all(wanted: list[str], options: argparse.Namespace, base: Path) -> int:
    """Prints a line a file, then the survivors. 0 if no file fell below the aim."""
    going: list[tuple[str, float, subprocess.Popen[str]]] = []
    left, survivors, total, failed = list(wanted), [], Counter[str](), False
    while left or going:
        while left and len(going) < options.jobs:
            going.append((left[0], time.monotonic(), start_one(left.pop(0), options, base)))
        target, begun, process = going.pop(0)
        out = look_wider(target, list(read_verdicts(process)), options, base)
        shutil.rmtree(base / target.replace("/", "."), ignore_errors=True)
        rows = [line.partition("\t") for line in out if "\t" in line]
        count = Counter(verdict.split()[0] for verdict, _, _ in rows)
        stuck = sum(verdict == STUCK for verdict, _, _ in rows)
        total += count
        survivors += [f"{name}  [{verdict}]" for verdict, _, name in rows if verdict.startswith("survived")]
        trouble = [line for line in out if "\t" not in line]
        failed = failed or bool(process.returncode)
        figures = f"killed {count['killed']:4} ({stuck} by not ending), survived {count['survived']:3}"
        figures += f", equivalent {count['equivalent']:2}, untried {count['untried']}"
        print(f"{target:32} {figures}; {time.monotonic() - begun:.0f} s", *trouble, sep="\n  ", flush=True)
    print(*(f"SURVIVED {name}" for name in survivors), sep="\n")
    share = total["killed"] / max(1, total["killed"] + total["survived"])
    said = ", ".join(f"{name} {total[name]}" for name in ("killed", "survived", "equivalent", "untried"))
    print(f"mutants: {total.total()}, {said}: {share:.1%} of those tried were killed")
    return 1 if failed or share < 0.95 else 0


if __name__ == "__main__":
    sys.exit(main())
