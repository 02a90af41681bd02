"""What cards and the journal of changes cost, and how long an answer to "why" takes."""

from __future__ import annotations

import contextlib
import io
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import procs
from measures import LEAN, Bench, Row
from system import pal

from palinurus import Agent
from palinurus.agent import think
from palinurus.agent.recorder import RunRecorder
from palinurus.agent.tapes.tape import list_tapes
from palinurus.cli.look.why import run_why
from palinurus.config.sections.session import RecordSettings
from palinurus.core.types.card import CallCard
from palinurus.services.why import TOPICS
from palinurus.testing.model import ScriptedModel, call_tools, say

CONFIG = {"agents": {"defaults": {"skipBootstrap": True}}}
FILES = 1_000  # of a workspace in which a command writes
MESSAGES, CALLS = 40, 12  # in the store that is asked; model calls of the run that is explained
_NONE = CallCard(-1, 0, "", "", "", "")


ToolOrder = tuple[str, dict[str, Any]]


def _list_calls(rounds: int) -> list[ToolOrder]:
    return [("ls", {"path": ".", "limit": n + 1}) for n in range(rounds)]


class _Stopwatch(ScriptedModel):
    """Tools, then an answer, again and again; notes when it is asked."""

    def __init__(self, *calls: ToolOrder) -> None:
        steps = [call_tools(call) for call in calls or _list_calls(1)]
        super().__init__([*steps, say("done")])
        self._rounds = [*steps, say("done")]
        self.asked: list[float] = []
        self.spent: list[float] = []  # processor time of the loop by then

    async def stream(self, request: Any, stop: Any) -> Any:
        self.asked.append(time.perf_counter())
        self.spent.append(time.thread_time())
        if self.steps_left == 0:
            self._script += self._rounds
        async for event in super().stream(request, stop):
            yield event


class _NoCards:
    def __init__(self, plan: Any) -> None: ...

    def make(self, *facts: Any, **more: Any) -> CallCard:
        return _NONE


@contextlib.contextmanager
def _without_cards() -> Iterator[None]:
    """Neither made nor written, as before there were any."""
    real, call = think.CardMaker, RunRecorder.call

    def plain(self: Any, answer: Any, card: CallCard) -> None:
        self._spend(answer, 1)

    think.CardMaker, RunRecorder.call = _NoCards, plain  # type: ignore[assignment, misc, method-assign]
    try:
        yield
    finally:
        think.CardMaker, RunRecorder.call = real, call  # type: ignore[misc, method-assign]


async def cards(bench: Bench) -> list[Row]:
    """Message in to the second model request out: the first call's card is made and on disk before it. With and
    without cards by turns, so that a busy machine is the same for both; judged by processor time, which it does not
    change."""
    with tempfile.TemporaryDirectory(dir=bench.system.root) as home:
        model = _Stopwatch()
        took: dict[bool, list[float]] = {True: [], False: []}
        spent: dict[bool, list[float]] = {True: [], False: []}
        async with Agent(model, home=home, config=CONFIG) as agent:
            for n in range(2 * bench.many(200) + 10):
                carded = n % 2 == 0
                with contextlib.nullcontext() if carded else _without_cards():
                    start, used = time.perf_counter(), time.process_time()
                    await agent.run(f"number {n}", session=f"s{n // 20}")
                    used = time.process_time() - used
                if n >= 10:
                    took[carded].append((model.asked[-1] - start) * 1000)
                    spent[carded].append(used * 1000)
        more = statistics.median(spent[True]) - statistics.median(spent[False])
        return [
            Row("message in to second model request out, in the program itself, no cards", took[False], "ms"),
            Row("… with cards", took[True], "ms"),
            Row("… processor time that a card adds to a model call", [max(0.0, more / 2)], "ms", 0.3),
        ]


async def tapes(bench: Bench) -> list[Row]:
    """Message in to the first model request out, on tape and not by turns: processor time of the loop's thread, which a
    busy machine does not change. The tape is packed in another thread when the run is over."""
    with tempfile.TemporaryDirectory(dir=bench.system.root) as home:
        model = _Stopwatch()
        spent: dict[bool, list[float]] = {True: [], False: []}
        async with Agent(model, home=home, config=CONFIG) as agent:
            assert agent._app is not None
            for n in range(2 * bench.many(200) + 10):
                taped, before = n % 2 == 0, len(model.spent)
                agent._app.tapes.rules = RecordSettings(enabled=taped)
                start = time.thread_time()
                await agent.run(f"number {n}", session=f"s{n // 20}")
                if n >= 10:
                    spent[taped].append((model.spent[before] - start) * 1000)
        if not list_tapes(home):
            raise SystemExit("nothing was recorded")
        more = statistics.median(spent[True]) - statistics.median(spent[False])
        least = min(spent[True]) - min(spent[False])
        return [
            Row("… processor time that a tape adds to message in to request out", [max(0.0, more)], "ms", 1.0),
            Row("… the same between the least of each", [max(0.0, least)], "ms", 1.0),
        ]


async def why(bench: Bench) -> list[Row]:
    """Every topic, asked of a run of some calls in a home with some messages; and `pal why` as a process."""
    with tempfile.TemporaryDirectory(dir=bench.system.root) as home:
        async with Agent(_Stopwatch(*_list_calls(CALLS - 1)), home=home, config=CONFIG) as agent:
            for n in range(MESSAGES):
                await agent.run(f"number {n}", session=f"s{n % 5}")
        took: dict[str, list[float]] = {}
        before = os.environ.get("PALINURUS_HOME")
        os.environ["PALINURUS_HOME"] = home
        try:
            for topic in (*(name for name in TOPICS if name != "short"), "cache"):
                for _ in range(bench.many(20) + 1):
                    start = time.perf_counter()
                    with contextlib.redirect_stdout(io.StringIO()):
                        run_why([topic])
                    took.setdefault(topic, []).append((time.perf_counter() - start) * 1000)
        finally:
            os.environ.pop("PALINURUS_HOME")
            if before is not None:
                os.environ["PALINURUS_HOME"] = before
        env = {**bench.system.env, "PALINURUS_HOME": home}
        alone = [procs.timed([pal(), "why"], env, bench.system.work) for _ in range(bench.many(10) + 1)]
    slowest = max(took, key=lambda topic: statistics.median(took[topic][1:]))
    return [
        Row(f"an answer to why, the slowest of {len(took)} topics ({slowest})", took[slowest][1:], "ms", 50.0),
        Row("`pal why` as a process", [wall for wall, _ in alone[1:]], "s"),
        Row("… its processor time", [spent for _, spent in alone[1:]], "s"),
    ]


async def changes(bench: Bench) -> list[Row]:
    """What a command costs that writes in a workspace of many files, with and without the journal that an undo needs,
    by turns. Our own processor time: the command's is not ours, and a busy machine changes it little."""
    spent: dict[bool, list[float]] = {True: [], False: []}
    with tempfile.TemporaryDirectory(dir=bench.system.root) as root:
        agents = {}
        for kept in spent:
            home = os.path.join(root, str(kept))
            for n in range(FILES):
                folder = os.path.join(home, "workspace", f"folder{n // 20}")
                os.makedirs(folder, exist_ok=True)
                with open(os.path.join(folder, f"{n}.txt"), "w", encoding="utf-8") as file:
                    file.write(f"number {n}\n")
            model = _Stopwatch(("exec", {"command": "date > written"}))
            agents[kept] = Agent(model, home=home, config={**CONFIG, "tools": {"changes": {"enabled": kept}}})
        async with agents[True], agents[False]:
            for n in range(2 * bench.many(60) + 6):
                kept, used = n % 2 == 0, time.process_time()
                await agents[kept].run(f"number {n}")
                if n >= 6:
                    spent[kept].append((time.process_time() - used) * 1000)
    more = statistics.median(spent[True]) - statistics.median(spent[False])
    return [
        Row(f"processor time of a turn with a command, workspace of {FILES:,} files, no undo", spent[False], "ms"),
        Row("… that undo adds", [max(0.0, more)], "ms", 8.0, why=LEAN),
    ]
