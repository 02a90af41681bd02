from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from palinurus.errors import StateUnwritable
from palinurus.workspace.bootstrap import FIRST, NAMES, ensure_workspace, is_new_workspace, read_template


@pytest.mark.seed(264, 269)
def test_a_new_workspace_gets_every_file_and_the_first_conversation(tmp_path: Path) -> None:
    where = tmp_path / "w"
    old = os.umask(0)
    try:
        assert ensure_workspace(str(where)) == [*NAMES, FIRST]
    finally:
        os.umask(old)
    assert sorted(os.listdir(where)) == sorted([*NAMES, FIRST, "memory"])
    assert stat.S_IMODE((where / "memory").stat().st_mode) == 0o700
    assert stat.S_IMODE(where.stat().st_mode) == 0o700
    assert all(stat.S_IMODE((where / name).stat().st_mode) == 0o600 for name in NAMES)
    assert all((where / name).read_bytes() == read_template(name) != b"" for name in NAMES)


@pytest.mark.seed(271)
def test_what_is_there_is_never_touched_and_bootstrap_not_made_again(tmp_path: Path) -> None:
    ensure_workspace(str(tmp_path))
    (tmp_path / FIRST).unlink()
    (tmp_path / "SOUL.md").write_text("mine")
    (tmp_path / "USER.md").unlink()
    assert ensure_workspace(str(tmp_path)) == ["USER.md"]
    assert ensure_workspace(str(tmp_path)) == []
    assert (tmp_path / "SOUL.md").read_text() == "mine"
    assert not (tmp_path / FIRST).exists()


@pytest.mark.seed(269)
@pytest.mark.parametrize("there", ["MEMORY.md", "HEARTBEAT.md", "AGENTS.md"])
def test_bootstrap_only_where_nothing_else_is(tmp_path: Path, there: str) -> None:
    (tmp_path / there).write_text("x")
    assert not is_new_workspace(str(tmp_path))
    assert FIRST not in ensure_workspace(str(tmp_path))


@pytest.mark.seed(272)
def test_skip_makes_the_directory_only(tmp_path: Path) -> None:
    assert ensure_workspace(str(tmp_path / "w"), skip=True) == []
    assert os.listdir(tmp_path / "w") == []


def test_a_dangling_link_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").symlink_to(tmp_path / "outside")
    ensure_workspace(str(tmp_path))
    assert not (tmp_path / "outside").exists()


def test_a_file_in_the_way_says_so(tmp_path: Path) -> None:
    (tmp_path / "w").write_text("")
    with pytest.raises(StateUnwritable, match="workspace"):
        ensure_workspace(str(tmp_path / "w"))
