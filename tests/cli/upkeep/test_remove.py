"""`pal uninstall` and `pal reset`: what goes is named, what stays stays, cut off is ended by the next one."""

from __future__ import annotations

import io
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from palinurus.cli.main import main
from palinurus.cli.upkeep import remove
from palinurus.store.factory import open_reader


def talk(home: Path) -> None:
    assert main(["agent", "-m", "hello"]) == 0
    assert main(["cron", "add", "--name", "tea", "--every", "1h", "--message", "tea"]) == 0


def files(home: Path) -> set[str]:
    return {str(path.relative_to(home)) for path in home.rglob("*") if path.is_file()}


def test_conversations_go_jobs_stay(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    talk(demo)
    assert main(["reset", "--sessions", "--yes"]) == 0
    said = capsys.readouterr().out
    assert f"{demo}/agents/main/sessions  (transcripts)" in said and "0 messages that waited" in said
    with open_reader(str(demo)) as reader:
        assert reader.sessions() == [] and reader.items() == [] and reader.integrity() == []
    assert main(["cron", "list"]) == 0 and "tea" in capsys.readouterr().out
    assert (demo / "palinurus.json").exists() and len(list((demo / "backups").iterdir())) == 1
    assert main(["agent", "-m", "hello again"]) == 0


def test_settings_go(demo: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    before = (demo / "palinurus.json").read_bytes()
    assert main(["reset", "--config"]) == 64  # nobody says yes
    assert (demo / "palinurus.json").exists()
    assert main(["reset", "--config", "--yes"]) == 0
    assert not (demo / "palinurus.json").exists()
    assert [path.read_bytes() for path in (demo / "backups").iterdir()] == [before]
    assert main(["reset", "--config", "--yes"]) == 0 and "nothing of that" in capsys.readouterr().out


def test_everything_goes_but_backups(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    talk(demo)
    assert main(["reset", "--all", "--yes"]) == 0
    (kept,) = files(demo)
    assert kept.startswith("backups/")
    assert main(["backup", "verify", str(demo / kept)]) == 0 and "1 session," in capsys.readouterr().out


def test_a_reset_that_was_cut_off_is_ended(demo: Path) -> None:
    (demo / "backups").mkdir()
    (demo / "backups" / "a.backup").write_text("a")
    os.rename(demo, f"{demo}{remove._ASIDE}")
    assert main(["reset", "--all", "--yes"]) == 0
    assert files(demo) == {"backups/a.backup"} and not os.path.exists(f"{demo}{remove._ASIDE}")


def test_a_gateway_is_stopped_first(demo: Path, pal: Callable[..., object], tmp_path: Path) -> None:
    assert main(["gateway", "start"]) == 0
    assert main(["reset", "--sessions", "--yes"]) == 0
    assert main(["gateway", "status"]) == 3


def test_uninstalling_keeps_data_unless_told(demo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    talk(demo)
    assert main(["completion", "bash", "--install"]) == 0
    mine = tmp_path / ".config" / "fish" / "completions" / "pal.fish"
    mine.parent.mkdir(parents=True)
    mine.write_text("# my own\n")
    plan = remove.plan_uninstall(remove._make_site(), str(demo), purge=True)
    shown = [path for path, _ in plan.goes]
    assert str(demo) in shown and str(mine) not in shown
    assert any(path.endswith("bash-completion/completions/pal") for path in shown)


def test_reset_leaves_figures(demo: Path) -> None:
    talk(demo)

    def spent() -> int:
        with closing(sqlite3.connect(demo / "state.db")) as base:
            return int(base.execute("SELECT count(*) FROM spent").fetchone()[0])

    before = spent()
    assert main(["reset", "--sessions", "--yes"]) == 0 and spent() == before
