"""What the gateway keeps an eye on besides its work: runs that show no sign of life, what models are asked, and memory
that a burst of work has left behind.

The first two are diagnosis (`diagnostics.*`), kept in memory or in a file that nobody reads back: after a kill they
begin anew.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import json
import logging
import os
from collections.abc import Awaitable, Callable
from typing import Any

from palinurus.clock import Clock
from palinurus.config.sections.session import CacheTraceSettings, DiagnosticsSettings
from palinurus.core.types.events import MessageStart, RunEvent, ToolStart, ToolUpdate
from palinurus.core.types.inbound import Inbound
from palinurus.plugins.hooks import Hooks
from palinurus.providers.redact import redact_strings
from palinurus.tasks import TaskSet

log = logging.getLogger(__name__)

TRACE = os.path.join("logs", "cache-trace.jsonl")
LARGEST = 50 << 20  # bytes of the file; then it is begun anew
LEAST = 0.05  # seconds between two looks
QUIET = 60.0  # seconds between two looks at the memory
GROWN = 8_000_000  # bytes more than were left the last time
STUCK = "nothing was heard of it for too long (diagnostics.stuckSessionAbortMs)"


class _Signs:
    """The last sign of life of a run."""

    def __init__(self, session: str, at: float) -> None:
        self.session, self.at = session, at
        self.doing = "its preparation"
        self.named = False  # in the log
        self.asks = False  # a person is asked: that may take as long as it takes


class StuckRuns:
    """Implements `inbox.feed.RunFollower`. Looks only while something runs."""

    def __init__(self, rules: DiagnosticsSettings, clock: Clock, stop: Callable[[str, str], Awaitable[object]]) -> None:
        self._rules = rules
        self._clock = clock
        self._stop = stop
        self._runs: dict[str, _Signs] = {}
        self._tasks = TaskSet("looking for stuck runs")

    def on_accepted(self, item: str, session: str, inbound: Inbound) -> None:
        pass

    def on_started(self, item: str, session: str, inbound: Inbound) -> None:
        self._runs[item] = _Signs(session, self._clock.monotonic())
        if not len(self._tasks):
            self._tasks.start(self._watch())

    def on_event(self, item: str, event: RunEvent) -> None:
        run = self._runs.get(item)
        if run is None:
            return
        run.at, run.named = self._clock.monotonic(), False
        run.asks = isinstance(event, ToolUpdate) and bool(event.approval)
        if isinstance(event, ToolStart):
            run.doing = f"tool {event.name}"
        elif isinstance(event, MessageStart) and event.message is None:
            run.doing = "the model"

    def on_merged(self, item: str, into: str) -> None:
        self._runs.pop(item, None)

    def on_ended(self, item: str) -> None:
        self._runs.pop(item, None)

    async def _watch(self) -> None:
        warn, abort = self._rules.stuck_warn, self._rules.stuck_abort
        while self._runs:
            await self._clock.sleep(max(min(warn, abort or warn) / 4, LEAST))
            now = self._clock.monotonic()
            for run in tuple(self._runs.values()):
                quiet = now - run.at
                if quiet >= warn and not run.named and not run.asks:
                    run.named = True
                    log.warning("session %s shows no sign of life for %.0f s: %s", run.session, quiet, run.doing)
                if abort and quiet >= abort and not run.asks:
                    log.error("session %s is stopped: no sign of life for %.0f s", run.session, quiet)
                    run.at = now
                    await self._stop(run.session, STUCK)

    async def close(self) -> None:
        await self._tasks.close()


class CacheTrace:
    """Writes a line for every request to a model. Without what looks like a secret; 0600."""

    def __init__(self, rules: CacheTraceSettings, home: str, clock: Clock, secrets: tuple[str, ...]) -> None:
        self._rules = rules
        self._file = rules.file or os.path.join(home, TRACE)
        self._clock = clock
        self._secrets = secrets

    def attach(self, hooks: Hooks) -> None:
        if self._rules.enabled:
            hooks.on("llm_input", self._asked, owner="diagnostics.cacheTrace")

    def _asked(self, told: dict[str, Any]) -> None:
        line: dict[str, Any] = {name: told[name] for name in ("runId", "sessionKey", "provider", "model", "tools")}
        line |= {"at": self._clock.now()}
        rules = self._rules
        parts = {"systemPrompt": rules.system, "prompt": rules.prompt, "historyMessages": rules.messages}
        line |= {name: redact_strings(told[name], self._secrets) for name, wanted in parts.items() if wanted}
        try:
            os.makedirs(os.path.dirname(self._file), mode=0o700, exist_ok=True)
            if os.path.exists(self._file) and os.path.getsize(self._file) > LARGEST:
                os.replace(self._file, f"{self._file}.1")
            handle = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            with open(handle, "a", encoding="utf-8", errors="replace") as file:
                file.write(json.dumps(line, ensure_ascii=False, default=str) + "\n")
        except OSError as exc:
            log.warning("diagnostics.cacheTrace: %s is not written: %s", self._file, exc.strerror)


async def give_back_memory(
    busy: Callable[[], object],
    clock: Clock,
    resident: Callable[[], int],
    trim: Callable[[], object],
) -> None:
    """What many sessions at once took lies free in holes between what stays, and glibc keeps it for itself until it is
    asked. Asked when nothing runs, and only after the process has grown; ends with its task."""
    left = resident()
    while True:
        await clock.sleep(QUIET)
        if not busy() and resident() > left + GROWN:
            gc.collect()
            await asyncio.to_thread(trim)
            left = resident()


def read_resident_bytes() -> int:
    """Of this process; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", encoding="ascii") as told:
            return int(told.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def trim_heap() -> bool:
    """False: this C library has no such call."""
    call = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if call is None:
        return False
    call(0)
    return True
