from __future__ import annotations

from pathlib import Path

import pytest

from palinurus.config.sections.session import SkillSettings
from palinurus.core.skills.skill import Skill, parse_skill
from palinurus.workspace.discovery import SkillRoot, SkillScan, is_unchanged, locate_bundled_skills, scan_skills


def make(folder: Path, name: str = "") -> Path:
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(f"---\nname: {name or folder.name}\ndescription: d\n---\n")
    return folder


def seen(root: Path, limits: SkillSettings | None = None) -> SkillScan:
    return scan_skills((SkillRoot("test", str(root)),), limits or SkillSettings())


def names(found: SkillScan) -> list[str]:
    return [skill.name for skill in found.skills]


def test_groups_one_level_deep(tmp_path: Path) -> None:
    make(tmp_path / "a")
    make(tmp_path / "group" / "b")
    make(tmp_path / "group" / "deep" / "c")
    make(tmp_path / ".hidden")
    make(tmp_path / "node_modules" / "x")
    make(tmp_path / "a" / "inner")
    assert names(seen(tmp_path)) == ["a", "b"]


def test_a_root_that_is_itself_a_skill(tmp_path: Path) -> None:
    assert names(seen(make(tmp_path / "lone"))) == ["lone"]


@pytest.mark.parametrize("kind", ["folder", "file", "group"])
def test_links_must_stay_in_their_root(tmp_path: Path, kind: str) -> None:
    root, outside = tmp_path / "root", make(tmp_path / "out" / "evil")
    root.mkdir()
    if kind == "folder":
        (root / "evil").symlink_to(outside)
    elif kind == "file":
        (root / "evil").mkdir()
        (root / "evil" / "SKILL.md").symlink_to(outside / "SKILL.md")
    else:
        (root / "evil").symlink_to(outside.parent)
    found = seen(root)
    assert found.skills == ()
    assert kind == "group" or "leaves its root" in found.broken[0].reason
    allowed = SkillSettings(targets=(str(outside.parent),))
    assert names(seen(root, allowed)) == ["evil"]


def test_links_inside_are_fine(tmp_path: Path) -> None:
    make(tmp_path / "group" / "real")
    (tmp_path / "real").symlink_to("group/real")
    assert names(seen(tmp_path)) == ["real"]


def test_limits(tmp_path: Path) -> None:
    for n in range(6):
        make(tmp_path / f"s{n}")
    assert len(seen(tmp_path, SkillSettings(candidates=4)).skills) == 4
    assert len(seen(tmp_path, SkillSettings(loaded=2)).skills) == 2
    found = seen(tmp_path, SkillSettings(file_bytes=10))
    assert not found.skills
    assert "larger than 10 bytes" in found.broken[0].reason


def test_broken_ones_are_listed_with_the_reason(tmp_path: Path) -> None:
    make(tmp_path / "good")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "SKILL.md").write_text("nothing")
    (tmp_path / "dir" / "SKILL.md").mkdir(parents=True)
    found = seen(tmp_path)
    assert names(found) == ["good"]
    assert {one.name: bool(one.reason) for one in found.broken} == {"bad": True, "dir": True}


def test_what_changed_is_noticed(tmp_path: Path) -> None:
    make(tmp_path / "group" / "a")
    found = seen(tmp_path)
    assert is_unchanged(found)
    make(tmp_path / "group" / "b")
    assert not is_unchanged(found)
    found = seen(tmp_path)
    (tmp_path / "group" / "a" / "SKILL.md").write_text("---\nname: a\ndescription: other words\n---\n")
    assert not is_unchanged(found)
    missing = seen(tmp_path / "later")
    (tmp_path / "later").mkdir()
    assert not is_unchanged(missing)


def test_our_own_skills_are_sound() -> None:
    found = seen(Path(locate_bundled_skills()))
    assert [skill.name for skill in found.skills if skill.model_invocable] == ["library", "palinurus-help", "summarize"]
    assert len(found.skills) == 18 and not found.broken  # the others are reached through the library
    assert not found.broken
    assert all(not one.warnings for one in found.skills)
    assert all(isinstance(parse_skill(Path(one.path).read_text(), one.path, one.name), Skill) for one in found.skills)
