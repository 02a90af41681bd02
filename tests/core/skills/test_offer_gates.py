from __future__ import annotations

import msgspec
import pytest

from palinurus.core.skills.offer import BUNDLED_SOURCE, SkillEnvironment, SkillOverride, list_unmet_needs
from palinurus.core.skills.skill import Skill, SkillRequirements

WORLD = SkillEnvironment("linux", {"git", "jq"}.__contains__, {"HAVE"}.__contains__, {"a.b"}.__contains__)


def one(
    source: str = "workspace", *, always: bool = False, os: tuple[str, ...] = (), **needs: tuple[str, ...]
) -> Skill:
    return Skill(
        name="s", description="d", key="k", source=source, always=always, os=os, primary_env="KEY",
        requires=SkillRequirements(**needs),
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
    assert "; ".join(list_unmet_needs(skill, WORLD)) == why


@pytest.mark.seed(389, 393)
def test_the_config_gives_what_is_asked_for_and_switches_off() -> None:
    asks = one(env=("KEY", "OTHER"))
    assert len(list_unmet_needs(asks, WORLD)) == 2
    entry = SkillOverride(env=frozenset(("OTHER",)), keyed=True)
    assert list_unmet_needs(asks, msgspec.structs.replace(WORLD, entries={"k": entry})) == ()
    assert (
        list_unmet_needs(one(always=True), msgspec.structs.replace(WORLD, entries={"k": SkillOverride(enabled=False)}))
        != ()
    )


@pytest.mark.seed(393)
def test_allowlists() -> None:
    assert list_unmet_needs(one(always=True), msgspec.structs.replace(WORLD, allowed=frozenset())) != ()
    assert list_unmet_needs(one(), msgspec.structs.replace(WORLD, allowed=frozenset(("s",)))) == ()
    assert list_unmet_needs(one(BUNDLED_SOURCE), msgspec.structs.replace(WORLD, bundled=frozenset(("other",)))) != ()
    assert list_unmet_needs(one(BUNDLED_SOURCE), msgspec.structs.replace(WORLD, bundled=frozenset(("s",)))) == ()
    assert list_unmet_needs(one(), msgspec.structs.replace(WORLD, bundled=frozenset(("other",)))) == ()
