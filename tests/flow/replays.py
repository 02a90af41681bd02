"""Records what the Apps of tests run, and plays it again: the whole corpus of flow tests is a test of replay."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from palinurus.agent.tapes.compare import compare_tapes
from palinurus.agent.tapes.play import PlayRules
from palinurus.agent.tapes.tape import list_tapes
from palinurus.agent.tapes.view import format_verdict
from palinurus.app import App
from palinurus.app.replay import ReplayBranch, ReplayWorld, close_sockets, load_tape, play_tape
from palinurus.config.sections.session import RecordSettings
from palinurus.errors import PalinurusError

# Tests whose runs cannot be played again, each with why.
LEFT_OUT = {
    "test_a_session_whose_transcript_is_not_whole_is_not_deleted": "it spoils the conversation before the run",
    "test_a_provider_that_fails_in_every_way[ignores everything]": "its lines are in memory only",
}
FROZEN = ReplayBranch(PlayRules(frozen=True))  # tests change their workspaces


def find_reason(test: str) -> str:
    """Why its runs are left out; "" if they are played."""
    return LEFT_OUT.get(test, "")


class ReplayCorpus:
    """Apps that were opened since the last look, and what came of their runs."""

    def __init__(self) -> None:
        self.apps: list[tuple[App, Any, frozenset[str]]] = []  # with its settings, and the tapes that were there
        self.runs = 0
        self.equal = 0
        self.left_out = 0

    @staticmethod
    def attach() -> ReplayCorpus:
        """From now on every App records."""
        made, opened = ReplayCorpus(), App.open

        async def open_recording(app: App) -> None:
            settings = app.settings
            await opened(app)
            if app.tapes.player is None and not app.settings.home.rpartition("/")[2].startswith("pal-replay-"):
                app.tapes.rules = RecordSettings(enabled=True)
                made.apps.append((app, settings, frozenset(list_tapes(settings.home))))

        App.open = open_recording  # type: ignore[method-assign]
        return made

    def replay_all(self, test: str) -> None:
        """Raises AssertionError for a run that does not come out as it was."""
        apps, self.apps = self.apps, []
        name = test.rpartition("::")[2]
        if find_reason(name):
            self.left_out += sum(len(list_tapes(home)) for home in {settings.home for _, settings, _ in apps})
            return
        bad: list[str] = []
        worker = threading.Thread(target=lambda: bad.extend(asyncio.run(self._replay(apps))))  # the test has a loop
        worker.start()
        worker.join()
        assert not bad, f"{test}: {len(bad)} runs did not replay:\n" + "\n".join(bad)

    async def _replay(self, apps: list[tuple[App, Any, frozenset[str]]]) -> list[str]:
        """Each run with the configuration of the App that recorded it."""
        bad = []
        for home in dict.fromkeys(settings.home for _, settings, _ in apps):
            here = [one for one in apps if one[1].home == home]
            for item in list_tapes(home):
                later = (at for at, (_, _, known) in enumerate(here) if item in known)
                app, settings, _ = here[next(later, len(here)) - 1]
                self.runs += 1
                if (why := await self._play(item, ReplayWorld(settings, app._environ, app._raw, app._own))) is None:
                    self.equal += 1
                else:
                    bad.append(f"  {item}: {why}")
        return bad

    async def _play(self, item: str, world: ReplayWorld) -> str | None:
        """What is wrong with it."""
        try:
            tape = load_tape(world.settings.home, item)
            with close_sockets() as tried:
                verdict = compare_tapes(tape, await play_tape(tape, world, FROZEN), tried)
        except (PalinurusError, TimeoutError, OSError) as exc:
            return f"{type(exc).__name__}: {exc}"
        if verdict.same and not tried:
            return None
        return format_verdict(verdict)

    def take(self) -> list[int]:
        """What was counted since the last look; it goes with a test's report, whichever process it ran in."""
        counted, self.runs, self.equal, self.left_out = [self.runs, self.equal, self.left_out], 0, 0, 0
        return counted


def summarize_replays(told: dict[str, list[int]]) -> list[str]:
    """Of all tests."""
    runs, equal, left = (sum(counted[at] for counted in told.values()) for at in range(3))
    names = ((test.rpartition("::")[2], counted[2]) for test, counted in told.items() if counted[2])
    return [
        f"{runs + left} runs recorded: {equal} replayed byte-equal with sockets closed, "
        f"{runs - equal} not, {left} left out",
        *(f"left out: {number} of {name}: {find_reason(name)}" for name, number in names),
    ]
