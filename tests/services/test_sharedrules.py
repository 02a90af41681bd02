"""The file of rules for commands on several nodes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from palinurus.config.sections.approvals import add_rules, read_approvals, remove_rules, touch_rule
from palinurus.core.types.approval import CommandRule
from palinurus.services.sharedrules import LOOK, SharedRules, merge_rules
from palinurus.store.factory import open_store
from palinurus.store.news import StoreNews
from palinurus.store.port import Store
from palinurus.testing.clock import FakeClock, run_ready_tasks
from palinurus.testing.slowstore import share_store

LS, CAT, RM = (CommandRule(f"/bin/{name}") for name in ("ls", "cat", "rm"))


class Place:
    """A node with a file of its own."""

    def __init__(self, store: Store, clock: FakeClock, folder: Path) -> None:
        folder.mkdir()
        self.file = str(folder / "exec-approvals.json")
        self.rules = SharedRules(store, clock, self.file)
        self.heard: list[StoreNews] = []
        store.watch(self.heard.append)

    def allow(self, rule: CommandRule) -> None:
        add_rules(self.file, "main", (rule,), "test", 1)

    @property
    def allowed(self) -> set[CommandRule]:
        return set(read_approvals(self.file).rules("main"))


class Fleet:
    def __init__(self, store: Store, clock: FakeClock, folder: Path) -> None:
        self.clock = clock
        self.a, self.b = Place(store, clock, folder / "a"), Place(share_store(store), clock, folder / "b")

    async def settle(self, *, told: bool = True) -> None:
        for _ in range(3):
            await run_ready_tasks()
            await self.clock.advance(LOOK)
            await run_ready_tasks()
            for place in (self.a, self.b):
                if told and place.heard:
                    place.heard.clear()
                    await place.rules.reread("exec-approvals")


@pytest.fixture
async def fleet(tmp_path: Path) -> Any:
    clock = FakeClock()
    store = await open_store(str(tmp_path / "h"), clock)
    made = Fleet(store, clock, tmp_path)
    yield made
    for place in (made.a, made.b):
        await place.rules.close()
    await store.close()


async def until_equal(fleet: Fleet, wanted: set[CommandRule]) -> None:
    for _ in range(200):
        await fleet.settle()
        if fleet.a.allowed == fleet.b.allowed == wanted:
            return
    raise AssertionError((fleet.a.allowed, fleet.b.allowed))


async def test_what_one_allows_and_takes_back_the_other_does(fleet: Fleet) -> None:
    fleet.a.allow(LS)
    await fleet.a.rules.start()
    await fleet.b.rules.start()
    assert fleet.b.allowed == {LS}
    fleet.b.allow(CAT)
    await until_equal(fleet, {LS, CAT})
    remove_rules(fleet.a.file, "main", LS.pattern)
    await until_equal(fleet, {CAT})


async def test_two_changes_at_once_both_count(fleet: Fleet) -> None:
    fleet.a.allow(LS)
    await fleet.a.rules.start()
    await fleet.b.rules.start()
    fleet.a.allow(CAT)
    fleet.b.allow(RM)
    remove_rules(fleet.b.file, "main", LS.pattern)
    await until_equal(fleet, {CAT, RM})


async def test_a_machine_that_joins_with_other_rules_takes_the_fleets(fleet: Fleet) -> None:
    fleet.a.allow(LS)
    await fleet.a.rules.start()
    fleet.b.allow(RM)
    await fleet.b.rules.start()
    assert fleet.b.allowed == {LS}
    aside = json.loads(Path(f"{fleet.b.file}.before-fleet").read_text())
    assert aside["agents"]["main"]["allowlist"][0]["pattern"] == "/bin/rm"


async def test_when_a_rule_was_used_is_told_to_nobody_and_a_broken_file_neither(fleet: Fleet) -> None:
    fleet.a.allow(LS)
    await fleet.a.rules.start()
    await fleet.b.rules.start()
    fleet.b.heard.clear()
    touch_rule(fleet.a.file, "main", LS, "ls -l", 5)
    await fleet.settle(told=False)
    Path(fleet.a.file).write_text("{ broken")
    await fleet.settle(told=False)
    assert fleet.b.heard == [] and fleet.b.allowed == {LS} and read_approvals(fleet.a.file).problem


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "both"),
    [
        ({"x": 1}, {"x": 1}, {"x": 2}, {"x": 2}),
        ({"x": 1}, {"x": 2}, {"x": 1}, {"x": 2}),
        ({"x": 1}, {"x": 2}, {"x": 3}, {"x": 3}),
        ({"x": 1}, {}, {"x": 1, "y": 2}, {"y": 2}),
        (None, {"x": [1]}, {"x": [2]}, {"x": [2, 1]}),
        ({"x": [1, 2]}, {"x": [1]}, {"x": [1, 2, 3]}, {"x": [1, 3]}),
        ({"x": [1]}, {"x": 5}, {"x": [1, 2]}, {"x": [1, 2]}),
    ],
)
def test_merging(base: Any, ours: Any, theirs: Any, both: Any) -> None:
    assert merge_rules(base, ours, theirs) == both
