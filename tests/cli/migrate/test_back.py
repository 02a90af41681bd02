"""`pal export --to openclaw`: a home that comes back byte for byte, never over something, whole or marked as not."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from cli.migrate import homes
from cli.migrate.test_migrate import bring, home, records, snapshot
from nursery import run_program
from palinurus.cli.migrate import run_import
from palinurus.cli.migrate.back import run_export
from palinurus.errors import BadRequest

__all__ = ["home"]  # a fixture


def read_transcripts(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("agents/*/sessions/*.jsonl*")}


def test_there_and_back_is_the_same(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    homes.make_openclaw(tmp_path)
    run_import(["openclaw"])
    before = snapshot(home)
    back = tmp_path / "user" / ".openclaw"
    assert run_export(["--to", "openclaw", str(back)]) == 0
    assert "nothing here was changed" in capsys.readouterr().out
    touched = {name for name, was in snapshot(home).items() if was != before.get(name)}
    assert touched <= {"state.db", "state.db-shm", "state.db-wal", "palinurus.json.last-good"}  # opened, read
    assert not (back / ".palinurus-export").exists()
    entries = json.loads((back / "agents/main/sessions/sessions.json").read_text())
    assert entries[homes.KEY]["sessionFile"] == str(back / "agents/main/sessions/s-1.jsonl")
    config = json.loads((back / "openclaw.json").read_text())
    assert config["gateway"]["mode"] == "local"
    assert config["agents"]["defaults"]["workspace"] == str(back / "workspace")
    work = next(one for one in config["agents"]["list"] if one["id"] == "work")
    assert work["workspace"] == str(back / "workspace-work")
    assert (back / "openclaw.json").stat().st_mode & 0o77 == 0
    monkeypatch.setenv("PALINURUS_HOME", str(tmp_path / "again"))
    bring(capsys, "openclaw", str(back))
    assert read_transcripts(tmp_path / "again") == read_transcripts(home) != {}
    assert (tmp_path / "again/workspace/SOUL.md").read_text() == "I am Molty.\n"
    assert records(tmp_path / "again", "job")["j-1"]["payload"]["message"] == "morning brief"
    assert "telegram/default/4711" in records(tmp_path / "again", "paired")


def test_keys_that_only_we_know_are_told_and_left_out(
    tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = {"agents": {"defaults": {"evidence": "off", "model": "a/b"}}, "budgets": {"day": 1}, "record": {"mode": "on"}}
    homes.put(home, "palinurus.json", own)
    assert run_export(["--to", "openclaw", str(tmp_path / "back"), "--json"]) == 0
    lines = {line["name"]: line["fate"] for line in json.loads(capsys.readouterr().out)["lines"]}
    assert lines["agents.defaults.evidence"] == lines["budgets"] == lines["record"] == "lost"
    config = json.loads((tmp_path / "back/openclaw.json").read_text())
    assert config["agents"]["defaults"]["model"] == "a/b" and not {"budgets", "record"} & config.keys()
    assert "evidence" not in config["agents"]["defaults"]


def test_never_over_something(tmp_path: Path, home: Path) -> None:
    homes.put(tmp_path, "back/precious.txt", "mine")
    with pytest.raises(BadRequest, match="is not empty"):
        run_export(["--to", "openclaw", str(tmp_path / "back")])
    with pytest.raises(BadRequest, match="this home itself"):
        run_export(["--to", "openclaw", str(home), "--overwrite"])
    assert run_export(["--to", "openclaw", str(tmp_path / "back"), "--overwrite"]) == 0
    assert (tmp_path / "back/precious.txt").read_text() == "mine"


@pytest.mark.parametrize("step", [1, 4])
def test_killed_it_is_marked_and_run_again(step: int, tmp_path: Path, home: Path) -> None:
    homes.make_openclaw(tmp_path)
    run_import(["openclaw"])
    back = tmp_path / "back"
    crash = {**os.environ, "PALINURUS_CRASH": f"export.placed:{step}"}
    assert run_program("export", "--to", "openclaw", str(back), env=crash).returncode == 137
    assert (back / ".palinurus-export").exists() and not (back / "openclaw.json").exists()
    assert run_export(["--to", "openclaw", str(back)]) == 0
    assert not (back / ".palinurus-export").exists() and read_transcripts(back) == read_transcripts(home)


@pytest.mark.parametrize(
    "point", ["import.placed:1", "import.placed:5", "import.noted:3", "config.before", "config.after"]
)
def test_a_killed_import_is_gone_on_with(
    point: str, tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    homes.make_openclaw(tmp_path)
    assert run_program("import", "openclaw", env={**os.environ, "PALINURUS_CRASH": point}).returncode == 137
    bring(capsys, "openclaw")
    assert all(each.get("done") for each in bring(capsys, "openclaw").values() if each["fate"] != "lost")
    assert read_transcripts(home).keys() >= {"agents/main/sessions/s-1.jsonl"}
