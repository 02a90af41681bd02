"""Records what the Apps of tests run, and plays it again: the whole corpus of flow tests is a test of replay."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from typing import Any

from palinurus.agent.tapes.compare import compare_tapes
from palinurus.agent.tapes.play import PlayRules
from palinurus.agent.tapes.tape import list_tapes, read_tape
from palinurus.agent.tapes.view import format_difference
from palinurus.app import App
from palinurus.app.replay import ReplayBranch, ReplayWorld, close_sockets, play_tape
from palinurus.config.sections.session import RecordSettings
from palinurus.errors import PalinurusError

FROZEN = ReplayBranch(PlayRules(frozen=True))  # tests change their workspaces


class ReplayCorpus:
    """Apps that were opened since the last look, and what came of their runs."""

    def __init__(self) -> None:
        self.apps: list[tuple[App, Any]] = []
        self.runs = 0
        self.equal = 0
        self.troubles: Counter[str] = Counter()

    @staticmethod
    def attach() -> ReplayCorpus:
        """From now on every App records."""
        made, opened = ReplayCorpus(), App.open

        async def open_recording(app: App) -> None:
            settings = app.settings
            await opened(app)
            if app.tapes.player is None and not app.settings.home.rpartition("/")[2].startswith("pal-replay-"):
                app.tapes.rules = RecordSettings(enabled=True)
                made.apps.append((app, settings))

        App.open = open_recording  # type: ignore[method-assign]
        return made

    def replay_all(self, test: str) -> None:
        """Raises AssertionError for a run that does not come out as it was."""
        apps, self.apps = self.apps, []
        bad: list[str] = []
        worker = threading.Thread(target=lambda: bad.extend(asyncio.run(self._replay(apps))))  # the test has a loop
        worker.start()
        worker.join()
        assert not bad, f"{test}: {len(bad)} runs did not replay:\n" + "\n".join(bad)

    async def _replay(self, apps: list[tuple[App, Any]]) -> list[str]:
        bad, seen = [], set()
        for app, settings in reversed(apps):
            world = ReplayWorld(settings, app._environ, app._raw, app._own)
            for item in list_tapes(settings.home):
                if (settings.home, item) in seen:
                    continue
                seen.add((settings.home, item))
                self.runs += 1
                try:
                    tape = read_tape(settings.home, item)
                    with close_sockets() as tried:
                        new = await play_tape(tape, world, FROZEN)
                    verdict = compare_tapes(tape, new, tried)
                except (PalinurusError, TimeoutError, OSError) as exc:
                    bad.append(f"  {item}: {type(exc).__name__}: {exc}")
                    continue
                self.equal += verdict.same
                if not verdict.same:
                    first = verdict.differences[0]
                    sides = f"\n    was {first.recorded}\n    now {first.now}"
                    bad.append(f"  {item}: {format_difference(first)}{sides}")
        return bad

    def summarize(self) -> str:
        return f"{self.runs} runs recorded, {self.equal} replayed byte-equal with sockets closed"
