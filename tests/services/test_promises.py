"""Promises that are accepted: killed at any step, there is one job and nothing is offered again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from flow.test_app import running, until
from flow.test_tasks import ask
from palinurus.app import App
from palinurus.errors import BadRequest, StateUnwritable
from palinurus.services.promises import KIND, MOST, OpenPromise, accept_promise, close_promise, list_open_promises
from palinurus.testing.channel import FakeChannel
from palinurus.testing.model import ScriptedModel, say
from palinurus.tools.program.cron import CronJobMaker

HOUR = 3_600_000


def promised(app: App, ident: str = "i-0") -> OpenPromise:
    return OpenPromise(
        ident, "agent:main:main", "main", "I'll check tonight.", app.clock.now(), "fake", "chat", "default"
    )


async def put(app: App, one: OpenPromise) -> OpenPromise:
    await app.store.put_record(KIND, one.id, msgspec.json.encode(one))
    return one


class Stopped:
    """Schedules of a program that is killed when the job is made: before it is on disk, or after."""

    def __init__(self, app: App, *, late: bool) -> None:
        self._app, self._late = app, late

    async def add(self, asked: dict[str, Any], maker: CronJobMaker) -> dict[str, Any]:
        if self._late:
            await self._app.scheduler.add(asked, maker)
        raise StateUnwritable("killed")


@pytest.mark.parametrize("late", [False, True])
async def test_killed_while_it_is_accepted_there_is_one_job_after_the_next_start(tmp_path: Path, late: bool) -> None:
    async with running(tmp_path / "h", ScriptedModel([]), FakeChannel()) as app:
        one = await put(app, promised(app))
        with pytest.raises(StateUnwritable):
            await accept_promise(app.store, Stopped(app, late=late), one, app.clock.now() + HOUR)  # type: ignore[arg-type]
        assert await list_open_promises(app.store, app.clock.now()) == []  # not offered again, whatever comes
        assert len(app.scheduler.jobs()) == late
    for _ in range(2):
        async with running(tmp_path / "h", ScriptedModel([]), FakeChannel()) as app:
            (job,) = app.scheduler.jobs()
            assert job["id"] == one.job and "check tonight" in job["payload"]["message"]
            assert await app.store.list_records(KIND) == []
            assert "Promised" not in await ask(app, "/tasks")


async def test_a_job_that_ran_meanwhile_is_not_made_again(tmp_path: Path) -> None:
    model = ScriptedModel([say("It is green.")])
    async with running(tmp_path / "h", model, FakeChannel()) as app:
        one = await put(app, promised(app))
        with pytest.raises(StateUnwritable):
            await accept_promise(app.store, Stopped(app, late=True), one, app.clock.now())  # type: ignore[arg-type]
        await until(lambda: app.scheduler.jobs(True) == [])
    async with running(tmp_path / "h", model, FakeChannel()) as app:
        assert app.scheduler.jobs(True) == [] and await app.store.list_records(KIND) == []
        assert len(await app.scheduler.runs(one.job)) == 1


async def test_accepted_twice_it_is_one_job_and_one_that_cannot_be_stays_open(tmp_path: Path) -> None:
    async with running(tmp_path / "h", ScriptedModel([]), FakeChannel()) as app:
        one, due = await put(app, promised(app)), app.clock.now() + HOUR
        made = await accept_promise(app.store, app.scheduler, one, due)
        assert made is not None and await accept_promise(app.store, app.scheduler, one, due) is None
        assert not await close_promise(app.store, one) and len(app.scheduler.jobs()) == 1
        other = await put(app, msgspec.structs.replace(promised(app, "i-1"), agent="nobody"))
        with pytest.raises(BadRequest):
            await accept_promise(app.store, app.scheduler, other, due)
        assert await list_open_promises(app.store, app.clock.now()) == [other]


async def test_one_that_is_being_accepted_is_not_removed_with_those_that_are_too_many(tmp_path: Path) -> None:
    async with running(tmp_path / "h", ScriptedModel([]), FakeChannel()) as app:
        taken = await put(app, msgspec.structs.replace(promised(app), due=app.clock.now() + HOUR, at=1))
        for number in range(MOST):
            await put(app, promised(app, f"j-{number}"))
        assert len(await list_open_promises(app.store, app.clock.now())) == MOST
        assert await app.store.get_record(KIND, taken.id) is not None
