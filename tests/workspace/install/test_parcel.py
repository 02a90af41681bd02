from __future__ import annotations

import pytest

from palinurus.core.skills.danger import Part
from palinurus.errors import BadRequest, NotFound
from palinurus.workspace.install.parcel import asks, change, digest, parcel


def head(name: str, metadata: str = "{}") -> bytes:
    return f"---\nname: {name}\ndescription: d\nmetadata: {metadata}\n---\n".encode()


def test_the_one_skill_wherever_it_lies() -> None:
    parts = (Part("x/y/SKILL.md", head("y")), Part("x/y/a.md", b"1"), Part("README.md", b"2"))
    found = parcel(parts, "/from")
    assert found.skill.name == "y"
    assert [part.name for part in found.parts] == ["SKILL.md", "a.md"]


def test_several_must_be_chosen_from() -> None:
    parts = (Part("a/SKILL.md", head("a")), Part("b/SKILL.md", head("b")), Part("b/in/SKILL.md", head("c")))
    with pytest.raises(BadRequest, match="2 skills in it: a, b"):
        parcel(parts, "")
    assert [part.name for part in parcel(parts, "", "b").parts] == ["SKILL.md", "in/SKILL.md"]
    with pytest.raises(NotFound):
        parcel(parts, "", "c")


def test_none_and_broken() -> None:
    with pytest.raises(BadRequest, match=r"no SKILL\.md"):
        parcel((Part("a.md", b""),), "")
    with pytest.raises(BadRequest, match="no description"):
        parcel((Part("SKILL.md", b"---\nname: a\n---\n"),), "")
    with pytest.raises(BadRequest, match="larger"):
        parcel((Part("SKILL.md", head("a")),), "", "", 5)


def test_the_hash_covers_names_contents_and_what_can_run() -> None:
    base = (Part("a", b"1"), Part("b", b"2"))
    others = [
        (Part("a", b"1"), Part("c", b"2")),
        (Part("a", b"1"), Part("b", b"3")),
        (Part("a", b"1", True), Part("b", b"2")),
        (Part("a", b"1"),),
        (Part("a", b"2"), Part("b", b"1")),
    ]
    assert digest(base) == digest(base[::-1])
    assert len({digest(base), *map(digest, others)}) == 6


def test_the_change_names_files_and_new_wishes() -> None:
    old = parcel((Part("SKILL.md", head("a")), Part("gone", b""), Part("same", b"")), "")
    new = parcel(
        (
            Part("SKILL.md", head("a", "{openclaw: {requires: {bins: [x], env: [K]}}}")),
            Part("same", b""),
            Part("new", b""),
        ),
        "",
    )
    found = change(old, new)
    assert (found.added, found.removed, found.changed) == (("new",), ("gone",), ("SKILL.md",))
    assert found.asks == ("programs: x", "variables: K")
    assert asks(old.skill) == ()
