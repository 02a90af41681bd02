from __future__ import annotations

import pytest

from palinurus.core.skills.gates import BUNDLED, Entry, World, unmet
from palinurus.core.skills.skill import Requires, Skill

WORLD = World("linux", {"git", "jq"}.__contains__, {"HAVE"}.__contains__, {"a.b"}.__contains__)


def one(
    source: str = "workspace", *, always: bool = False, os: tuple[str, ...] = (), **needs: tuple[str, ...]
) -> Skill:
    return Skill(
        name="s", description="d", key="k", source=source, always=always, os=os, primary_env="KEY",
        requires=Requires(**needs),
    )  # fmt: skip


@pytest.mark.seed(389, 393)
@pytest.mark.parametrize(
    ("skill", "why"),
    [
        (one(), ""),
        (one(bins=("git", "jq")), ""),
        (one(bins=("git", "no")), "no program no"),
        (one(any_bins=("no", "jq")), ""),
        (one(any_bins=("no", "nor")), "none of the programs no, nor"),
        (one(env=("HAVE",)), ""),
        (one(env=("LACK",)), "LACK is not set"),
        (one(config=("a.b",)), ""),
        (one(config=("a.c",)), "config a.c is not set"),
        (one(os=("darwin",)), "for darwin only"),
        (one(os=("darwin",), always=True), "for darwin only"),
        (one(bins=("no",), env=("LACK",), always=True), ""),
    ],
)
def test_conditions(skill: Skill, why: str) -> None:
    assert "; ".join(unmet(skill, WORLD)) == why


@pytest.mark.seed(389, 393)
def test_the_config_gives_what_is_asked_for_and_switches_off() -> None:
    asks = one(env=("KEY", "OTHER"))
    assert len(unmet(asks, WORLD)) == 2
    entry = Entry(env=frozenset(("OTHER",)), keyed=True)
    assert unmet(asks, WORLD._replace(entries={"k": entry})) == ()
    assert unmet(one(always=True), WORLD._replace(entries={"k": Entry(enabled=False)})) != ()


@pytest.mark.seed(393)
def test_allowlists() -> None:
    assert unmet(one(always=True), WORLD._replace(allowed=frozenset())) != ()
    assert unmet(one(), WORLD._replace(allowed=frozenset(("s",)))) == ()
    assert unmet(one(BUNDLED), WORLD._replace(bundled=frozenset(("other",)))) != ()
    assert unmet(one(BUNDLED), WORLD._replace(bundled=frozenset(("s",)))) == ()
    assert unmet(one(), WORLD._replace(bundled=frozenset(("other",)))) == ()
