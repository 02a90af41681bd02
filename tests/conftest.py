"""Shared by all tests: which run, what a run costs, what it could not test, and the seed report.

`pytest --seeds FILE` writes which checklist lines have a passing test.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import re
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import suppress
from io import StringIO
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from _pytest.assertion.rewrite import AssertionRewritingHook
from hypothesis import HealthCheck, given, settings
from hypothesis.internal.conjecture import providers
from hypothesis.strategies import text

from crew import LOST, Crew
from memdisk import use_memory
from nosync import skip_sync
from nursery import nursery
from tables import join_rows

# Timing belongs in benchmarks: a loaded machine must not fail a property. `make test` draws the same examples every
# time, so that red means a change; `make torture` draws new ones, and more of them. A property that asks for more than
# the usual gets them there: the same three hundred every time show little that the same twenty do not.
_SHARED: dict[str, Any] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
USUAL, LONGER, FURTHER = 20, 300, 6
settings.register_profile("ours", max_examples=USUAL, derandomize=True, **_SHARED)
settings.register_profile("long", max_examples=LONGER, **_SHARED)
settings.load_profile("ours")


# Loading 13,000 tests makes a million objects that stay: nobody looks for garbage among them, neither now nor later.
gc.disable()


@given(text())
@settings(max_examples=1, database=None)
def _draw_text(_: str) -> None:
    """Drawing the first one reads Unicode's tables, in a fresh clone for a second and a half."""


def pytest_collection_finish(session: pytest.Session) -> None:
    if session.config.getoption("--crew") and not session.config.option.collectonly:
        _draw_text()  # once, for all of the crew
    gc.freeze()
    gc.set_threshold(20_000, 20, 500)
    gc.enable()
    # A gateway that runs in a test would have all of this looked through, now and for every test after it.
    gc.unfreeze, gc.set_threshold = lambda: None, lambda *_: None  # type: ignore[assignment]


# pytest takes the whole package for a plugin, since it brings one, and rewrites the asserts of all its modules: a
# quarter of loading in a fresh clone; before Python 3.11.5 parsing in threads fails at times. Only `testing` asserts.
for _hook in sys.meta_path:
    if isinstance(_hook, AssertionRewritingHook):  # not with --assert=plain
        _hook._must_rewrite.discard("palinurus")
        _hook._marked_for_rewrite_cache.clear()
        _hook.mark_rewrite("palinurus.testing")


def pytest_configure(config: pytest.Config) -> None:
    # nohup, and shells that start this in the background, have these ignored, which what the tests start would inherit
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.umask(0o077)  # as every command of ours has it (cli/args.py), and as what the tests start inherits it
    for name in ("COLUMNS", "LINES"):  # of the terminal this was started in; a test makes one of its own
        os.environ.pop(name, None)
    if config.getoption("--torture"):
        settings.load_profile("long")
    else:
        # It would draw from the constants of all modules that happen to be loaded: others in each process, and reading
        # two thousand sources for them takes ten seconds in a fresh clone.
        providers._get_local_constants = lambda: providers._local_constants
        skip_sync()
    if size := config.getoption("--crew"):
        if not config.option.collectonly:
            use_memory()
            nursery()  # loads the program while the tests are loaded, once for all of the crew
        lost = LOST if _is_limited(config) else float("inf")
        config.pluginmanager.register(Crew(config, size, lost), "crew")


DEAREST = 6  # folders that are named at the end
LONG = pytest.StashKey[int]()  # how many long sweeps were left out
BEGAN = time.monotonic()
_NUMBERS = count()


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of this test. (pytest's own reads the names of all before it makes the next: that grows.)"""
    name = re.sub(r"\W", "_", request.node.name)[:25]
    path = tmp_path_factory.getbasetemp() / f"{name}{next(_NUMBERS)}_{os.getpid():x}"
    path.mkdir(mode=0o700)
    return path


@pytest.fixture
def nepal(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This machine is where it is a quarter to six when it is midnight in Greenwich."""
    with monkeypatch.context() as changed:
        changed.setenv("TZ", "Asia/Kathmandu")
        time.tzset()
        yield
    time.tzset()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seeds", help="write {line: {passing test: is it a whole flow?}} of the checklist here")
    parser.addoption("--torture", action="store_true", help="run the long sweeps too")
    parser.addoption("--slow-store", type=int, metavar="SEED", help="every App gets a store whose reads take a while")
    parser.addoption("--replay", action="store_true", help="play the runs of flow tests again (tests/flow/replays.py)")
    parser.addoption("--tables", action="store_true", help="rows of a table that need no fixture are one test")
    parser.addoption("--crew", type=int, help="run them in so many forked processes (tests/crew.py)")
    parser.addoption("--costs", help="with --crew: write processor time and seconds of each test here, dearest first")
    parser.addoption("--aim", type=int, help="how many seconds this run may take; it says at the end what it took")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        _set_examples(item, torture=config.getoption("--torture"))
    if config.getoption("--torture"):
        return
    long = [item for item in items if item.get_closest_marker("torture")]
    if long and any("::" in word for word in config.args):  # somebody names one: it says why it does not run
        for item in long:
            item.add_marker(pytest.mark.skip(reason="long sweep: make torture"))
    elif long:
        items[:] = [item for item in items if not item.get_closest_marker("torture")]
        config.stash[LONG] = len(long)
        if hasattr(config, "workeroutput"):
            config.workeroutput["long"] = len(long)
    if config.getoption("--tables") and not any("[" in word for word in config.args):
        items[:] = join_rows(items)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """A worker of xdist ends: it has seen all tests, as the others have."""
    node.config.stash[LONG] = getattr(node, "workeroutput", {}).get("long", 0)


def _set_examples(item: pytest.Item, *, torture: bool) -> None:
    """A property that says how many examples it wants gets more of them too, or no more than others."""
    function = getattr(item, "obj", None)
    wanted = getattr(function, "_hypothesis_internal_use_settings", None)
    if isinstance(wanted, settings) and (torture or wanted.max_examples > USUAL):
        number = wanted.max_examples * FURTHER if torture else USUAL
        found = settings(wanted, max_examples=number)
        getattr(function, "__func__", function)._hypothesis_internal_use_settings = found


# What a skipped test would have needed, by a word of its reason: packages of Debian's.
NEEDS = {
    "bubblewrap": "bubblewrap",
    "bwrap": "bubblewrap",
    "caddy is": "caddy",
    "chromium": "chromium",
    "espeak-ng": "espeak-ng opus-tools",
    "ffmpeg": "ffmpeg",
    "fish": "fish",
    "git ": "git",
    "nginx is": "nginx-light",
    "node and npm": "nodejs npm",
    "openssl": "openssl",
    "pooler": "pgbouncer",
    "postgresql": "postgresql",
    "strace": "strace",
    "systemd-analyze": "systemd",
    "tmux": "tmux",
    "xvfb": "xvfb xauth",
    "zsh": "zsh",
}


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Says at the end what was not tested, the one command that would bring it, and what the run has cost."""
    reasons = Counter({"long sweep: make torture": config.stash.get(LONG, 0)})
    for report in terminalreporter.stats.get("skipped", ()):
        text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reasons[text.removeprefix("Skipped: ")] += 1
    if +reasons:
        terminalreporter.section("not tested here")
    wanted: set[str] = set()
    for reason, number in (+reasons).most_common():
        terminalreporter.line(f"{number:5}  {reason}")
        wanted |= {name for word, names in NEEDS.items() if word in reason.lower() for name in names.split()}
    if wanted:
        terminalreporter.line(f"What is missing, on Debian: apt-get install {' '.join(sorted(wanted))}")
    crew = config.pluginmanager.getplugin("crew")
    if crew and (target := config.getoption("--costs")):
        rows = (f"{cpu:8.3f} {took:8.3f} {test}\n" for cpu, took, test in sorted(crew.costs, reverse=True))
        Path(str(target)).write_text("".join(rows))
    if aim := config.getoption("--aim"):
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        cpu = sum(one.ru_utime + one.ru_stime for one in used)
        terminalreporter.line(
            f"{time.monotonic() - BEGAN:.0f} s, {aim} s are the aim on 2 idle cores; {cpu:.0f} s of processor time, "
            f"{os.cpu_count()} cores, load {os.getloadavg()[1]:.1f}"
        )
        if crew:
            dear = sorted(crew.spent.items(), key=lambda row: -row[1][1])[:DEAREST]
            told = (f"{name} {number:.0f} in {took:.0f} s ({used:.0f})" for name, (number, took, used) in dear)
            terminalreporter.line(f"most of it (tests in seconds, processor time): {', '.join(told)}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    report = yield
    if report.when == "call" and item.config.getoption("--seeds"):
        numbers = [n for mark in item.iter_markers("seed") for n in mark.args]
        whole = bool(numbers) and _runs_product(item)
        report.user_properties.extend(("flow" if whole else "seed", n) for n in numbers)
    return report


def _runs_product(item: pytest.Item) -> bool:
    from seeds.level import runs_product  # it loads the whole program

    assert isinstance(item, pytest.Function)
    found = item._fixtureinfo.name2fixturedefs.values()  # the only way to them
    return runs_product(item.obj, (one[-1].func for one in found))


_seen: dict[int, dict[str, bool]] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" and report.passed:
        for key, value in report.user_properties:
            if key in ("seed", "flow"):
                _seen.setdefault(int(str(value)), {})[report.nodeid] = key == "flow"


def pytest_sessionfinish(session: pytest.Session) -> None:
    target = session.config.getoption("--seeds")
    if target and not hasattr(session.config, "workerinput"):
        Path(str(target)).write_text(json.dumps({str(k): v for k, v in sorted(_seen.items())}))


def _is_limited(config: pytest.Config) -> bool:
    """Is there a time in which each test ends? A replay plays everything once more."""
    return not (config.getoption("--torture") or config.getoption("--replay"))


STUCK = 300  # seconds after which a test that waits for ever fails instead of holding up all others
AGAIN = 60  # … where one of the same file has done so before, and when it does not even end then
_waited: set[Path] = set()  # files with such a test


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    if not _is_limited(item.config):
        return (yield)
    limit = AGAIN if item.path in _waited else STUCK

    def stop(*_: object) -> None:
        _waited.add(item.path)
        told = StringIO()
        with suppress(RuntimeError):  # no loop runs
            for task in asyncio.all_tasks():
                task.print_stack(file=told)
        pytest.fail(f"{item.nodeid} took more than {limit} seconds\n{told.getvalue()}")  # no Exception: nobody takes it

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, limit, AGAIN)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
