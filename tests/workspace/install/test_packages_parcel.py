from __future__ import annotations

import pytest

from palinurus.core.skills.danger import SkillFile
from palinurus.errors import BadRequest, NotFound
from palinurus.workspace.install.packages import choose_package, compare_packages, hash_parts, list_demands


def head(name: str, metadata: str = "{}") -> bytes:
    return f"---\nname: {name}\ndescription: d\nmetadata: {metadata}\n---\n".encode()


def test_the_one_skill_wherever_it_lies() -> None:
    parts = (SkillFile("x/y/SKILL.md", head("y")), SkillFile("x/y/a.md", b"1"), SkillFile("README.md", b"2"))
    found = choose_package(parts, "/from")
    assert found.skill.name == "y"
    assert [part.name for part in found.parts] == ["SKILL.md", "a.md"]


def test_several_must_be_chosen_from() -> None:
    parts = (
        SkillFile("a/SKILL.md", head("a")),
        SkillFile("b/SKILL.md", head("b")),
        SkillFile("b/in/SKILL.md", head("c")),
    )
    with pytest.raises(BadRequest, match="2 skills in it: a, b"):
        choose_package(parts, "")
    assert [part.name for part in choose_package(parts, "", "b").parts] == ["SKILL.md", "in/SKILL.md"]
    with pytest.raises(NotFound):
        choose_package(parts, "", "c")


def test_none_and_broken() -> None:
    with pytest.raises(BadRequest, match=r"no SKILL\.md"):
        choose_package((SkillFile("a.md", b""),), "")
    with pytest.raises(BadRequest, match="no description"):
        choose_package((SkillFile("SKILL.md", b"---\nname: a\n---\n"),), "")
    with pytest.raises(BadRequest, match="larger"):
        choose_package((SkillFile("SKILL.md", head("a")),), "", "", 5)


def test_the_hash_covers_names_contents_and_what_can_run() -> None:
    base = (SkillFile("a", b"1"), SkillFile("b", b"2"))
    others = [
        (SkillFile("a", b"1"), SkillFile("c", b"2")),
        (SkillFile("a", b"1"), SkillFile("b", b"3")),
        (SkillFile("a", b"1", True), SkillFile("b", b"2")),
        (SkillFile("a", b"1"),),
        (SkillFile("a", b"2"), SkillFile("b", b"1")),
    ]
    assert hash_parts(base) == hash_parts(base[::-1])
    assert len({hash_parts(base), *map(hash_parts, others)}) == 6


def test_the_change_names_files_and_new_wishes() -> None:
    old = choose_package((SkillFile("SKILL.md", head("a")), SkillFile("gone", b""), SkillFile("same", b"")), "")
    new = choose_package(
        (
            SkillFile("SKILL.md", head("a", "{openclaw: {requires: {bins: [x], env: [K]}}}")),
            SkillFile("same", b""),
            SkillFile("new", b""),
        ),
        "",
    )
    found = compare_packages(old, new)
    assert (found.added, found.removed, found.changed) == (("new",), ("gone",), ("SKILL.md",))
    assert found.asks == ("programs: x", "variables: K")
    assert list_demands(old.skill) == ()
