"""What happens to SOUL.md and the others when a command changes them without leave."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from palinurus.tools import persona

WATCHES = persona.get_persona_watches()


@pytest.fixture
def root(workspace: Path) -> Path:
    (workspace / "memory").mkdir()
    (workspace / "SOUL.md").write_text("soul")
    (workspace / "memory" / "a.md").write_text("note")
    (workspace / "real.md").write_text("linked")
    (workspace / "USER.md").symlink_to("real.md")
    return workspace


@pytest.mark.parametrize(
    ("command", "undone"),
    [
        ("echo x >> SOUL.md", {"SOUL.md"}),
        ("rm SOUL.md", {"SOUL.md"}),
        ("rm SOUL.md; mkdir SOUL.md; touch SOUL.md/x", {"SOUL.md"}),
        ("mv SOUL.md s; ln -s /etc/passwd SOUL.md", {"SOUL.md"}),
        ("ln SOUL.md other; echo x > other", {"SOUL.md"}),
        ("rm -r memory; ln -s /nonexistent memory", {"memory/a.md"}),
        ("rm -r memory; ln -s .. memory", {"memory/a.md"}),
        ("rm -r memory; echo x > memory", {"memory/a.md"}),
        ("echo x > memory/b.md; echo y > HEARTBEAT.md", {"memory/b.md", "HEARTBEAT.md"}),
        ("mkdir -p skills/x; echo x > skills/x/SKILL.md", {"skills/x/SKILL.md"}),
        ("ln -s /usr/share/doc skills", {"skills"}),
        ("mkdir other; ln -s other .agents; mkdir other/skills; echo x > other/skills/s.md", {".agents"}),
        ("echo x > real.md", {"real.md"}),
        ("ln -sf /etc/passwd USER.md", {"USER.md"}),
        ("touch SOUL.md; cp SOUL.md s; mv s SOUL.md", set()),
        ("echo x > plain.md; echo x > memory/data.csv", set()),
    ],
)
def test_it_is_put_back(root: Path, tmp_path: Path, command: str, undone: set[str]) -> None:
    with WATCHES.watch(str(root), str(tmp_path / "aside")) as watch:
        subprocess.run(["sh", "-c", command], cwd=root, check=True)
        assert set(watch.undo()) == undone
        assert watch.undo() == []
    assert (root / "SOUL.md").read_text() == "soul" and not (root / "SOUL.md").is_symlink()
    assert (root / "memory" / "a.md").read_text() == "note" and not (root / "memory").is_symlink()
    assert os.readlink(root / "USER.md") == "real.md" and (root / "real.md").read_text() == "linked"
    assert not (root / "HEARTBEAT.md").exists() and not (root / "skills" / "x" / "SKILL.md").exists()


def test_what_was_written_with_leave_stays_also_for_others_who_watch(root: Path) -> None:
    with (
        WATCHES.watch(str(root), "") as one,
        WATCHES.watch(str(root), "") as other,
    ):
        (root / "SOUL.md").write_text("better")
        WATCHES.accept([str(root / "SOUL.md")])
        assert one.undo() == [] and other.undo() == []
    assert (root / "SOUL.md").read_text() == "better"


def test_a_process_that_was_left_behind_is_watched_until_it_ends(root: Path) -> None:
    child = subprocess.Popen(["sleep", "100"])
    with WATCHES.watch(str(root), "") as watch:
        watch.pids.add(child.pid)
    (root / "SOUL.md").write_text("late")
    assert WATCHES.undo_strays(str(root)) == ["SOUL.md"]
    child.kill()
    child.wait()
    (root / "SOUL.md").write_text("last")
    assert WATCHES.undo_strays(str(root)) == ["SOUL.md"]
    (root / "SOUL.md").write_text("the owner's")
    assert WATCHES.undo_strays(str(root)) == [] and (root / "SOUL.md").read_text() == "the owner's"
