from __future__ import annotations

import fcntl
import os
import stat
from pathlib import Path

import msgspec
import pytest

from palinurus.config.sections.session import SkillSettings
from palinurus.core.skills.danger import SkillFile
from palinurus.errors import BadRequest, NotFound, StateLocked
from palinurus.workspace.discovery import SkillRoot, scan_skills
from palinurus.workspace.install.packages import LOCK, InstalledSkills, SkillPackage, SkillPin, choose_package


def made(text: str = "body", name: str = "demo") -> SkillPackage:
    head = f"---\nname: {name}\ndescription: d\n---\n{text}\n".encode()
    return choose_package((SkillFile("SKILL.md", head), SkillFile("bin/run", b"#!/bin/sh\n", True)), "")


def pin(of: SkillPackage) -> SkillPin:
    return SkillPin(of.digest, "/from", 1)


def listed(root: Path) -> list[str]:
    return [skill.name for skill in scan_skills((SkillRoot("installed", str(root)),), SkillSettings()).skills]


def test_install_replace_remove(tmp_path: Path) -> None:
    place = InstalledSkills(str(tmp_path / "skills"))
    for text in ("one", "two"):
        new = made(text)
        where = Path(place.put(new, pin(new)))
        assert where.joinpath("SKILL.md").read_text().endswith(f"{text}\n")
        assert place.pins() == {"demo": pin(new)}
        assert place.drift() == {}
        assert sorted(os.listdir(place.root)) == [".guard", LOCK, "demo"]
    assert stat.S_IMODE((where / "SKILL.md").stat().st_mode) == 0o600
    assert stat.S_IMODE((where / "bin" / "run").stat().st_mode) == 0o700
    assert listed(Path(place.root)) == ["demo"]
    place.remove("demo")
    assert (sorted(os.listdir(place.root)), place.pins()) == ([".guard", LOCK], {})
    with pytest.raises(NotFound):
        place.remove("demo")


def test_what_changes_afterwards_is_noticed(tmp_path: Path) -> None:
    place = InstalledSkills(str(tmp_path))
    one, two = made(name="one"), made(name="two")
    place.put(one, pin(one))
    place.put(two, pin(two))
    (tmp_path / "one" / "SKILL.md").write_text("---\nname: one\ndescription: d\n---\nmore\n")
    place_two = tmp_path / "two" / "extra"
    place_two.write_text("x")
    assert place.drift() == dict.fromkeys(("one", "two"), "changed since it was installed")


@pytest.mark.parametrize("name", ["../up", "a/b", ".hidden", "", "x" * 65, "a b"])
def test_names_that_are_no_folders(tmp_path: Path, name: str) -> None:
    place = InstalledSkills(str(tmp_path / "skills"))
    new = made()
    bad = msgspec.structs.replace(new, skill=type(new.skill)(name=name, description="d"))
    with pytest.raises(BadRequest):
        place.put(bad, pin(new))
    with pytest.raises(BadRequest):
        place.remove(name)
    assert not (tmp_path / "up").exists()


def test_killed_while_writing(tmp_path: Path) -> None:
    """Half a skill lies in a stage: nobody sees it, and the next change takes it away."""
    place = InstalledSkills(str(tmp_path))
    stage = tmp_path / ".stage-1"
    stage.mkdir()
    (stage / "SKILL.md").write_text("---\nname: half\ndescription: d\n---\n")
    assert listed(tmp_path) == []
    new = made()
    place.put(new, pin(new))
    assert not stage.exists()


def test_killed_between_the_renames(tmp_path: Path) -> None:
    """The old skill was put aside, the new one is not there yet: the next change brings the old one back."""
    place = InstalledSkills(str(tmp_path))
    old = made("old")
    place.put(old, pin(old))
    (tmp_path / "demo").rename(tmp_path / ".old-demo")
    other = made(name="other")
    place.put(other, pin(other))
    assert place.drift() == {}
    assert listed(tmp_path) == ["demo", "other"]


def test_killed_before_the_pin(tmp_path: Path) -> None:
    """The new skill is there with the old pin: that shows as a change, and installing again puts it right."""
    place = InstalledSkills(str(tmp_path))
    old, new = made("old"), made("new")
    place.put(new, pin(old))
    assert place.drift() == {"demo": "changed since it was installed"}
    place.put(new, pin(new))
    assert place.drift() == {}


def test_one_at_a_time(tmp_path: Path) -> None:
    place = InstalledSkills(str(tmp_path))
    handle = os.open(tmp_path / ".guard", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(handle, fcntl.LOCK_EX)
    new = made()
    with pytest.raises(StateLocked):
        place.put(new, pin(new))
    os.close(handle)
    place.put(new, pin(new))


def test_a_torn_lock_file_pins_nothing_and_breaks_nothing(tmp_path: Path) -> None:
    (tmp_path / LOCK).write_text('{"demo": {')
    place = InstalledSkills(str(tmp_path))
    assert (place.pins(), place.drift()) == ({}, {})
    new = made()
    place.put(new, pin(new))
    assert place.pins() == {"demo": pin(new)}
