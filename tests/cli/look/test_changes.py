"""The commands of docs/changes.md, on a home without a gateway, print what it shows."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from palinurus.cli.look.changes import run_changes, run_redo, run_undo
from palinurus.config.load import load_config
from palinurus.core.types.changes import ChangeRules
from palinurus.errors import BadRequest, NotFound
from palinurus.testing.home import get_work_dir, make_home
from palinurus.tools.changes.archive import ChangeArchive, RunHeader
from palinurus.tools.changes.look import FileLook, compare_looks

PAGE = (Path(__file__).parents[3] / "docs" / "changes.md").read_text(encoding="utf-8")
VERBS = {"changes": run_changes, "undo": run_undo, "redo": run_redo}
RUN = "01m7mw8d3qbhbc87p4nwstycpb"


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run changed a file, deleted one and made a folder with one."""
    home = make_home(str(tmp_path))
    monkeypatch.setenv("PALINURUS_HOME", home)
    assert load_config(home, {}).settings.tools.changes == ChangeRules()
    work = Path(os.path.realpath(get_work_dir(home)))
    archive = ChangeArchive(home)
    archive.prepare()
    look = FileLook(ChangeRules(), archive.blobs)
    (work / "notes.md").write_text("one\ntwo\n")
    (work / "old.txt").write_text("old\n")
    before = look.look(str(work), {}, 0) or {}
    (work / "notes.md").write_text("one\nthree\n")
    (work / "old.txt").unlink()
    (work / "build").mkdir()
    (work / "build" / "out.bin").write_bytes(b"\0\1\2")
    after = look.look(str(work), {}, 0) or {}
    archive.add(RunHeader(RUN, "agent:main:main", "main", str(work), at=1), compare_looks(before, after, "exec"))
    return work


def test_the_page(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    block = re.search(r"```console\n(.*?)```", PAGE, re.DOTALL)
    assert block is not None
    for line, shown in re.findall(r"\$ pal ([^\n]*)\n((?:(?!\$ ).*\n)*)", block[1]):
        verb, *rest = line.split()
        assert VERBS[verb](rest) == 0
        printed = capsys.readouterr().out
        pattern = ".*?".join(re.escape(part) for part in shown.split("…"))
        assert re.fullmatch(pattern, printed, re.DOTALL), printed
        assert (work / "old.txt").exists() == (verb == "undo")


def test_the_settings_of_the_page_are_the_defaults(tmp_path: Path) -> None:
    for text in re.findall(r"```json5\n(.*?)```", PAGE, re.DOTALL):
        (tmp_path / "palinurus.json").write_text(text)
        loaded = load_config(str(tmp_path), {})
        assert not loaded.problems
        assert loaded.settings.tools.changes == ChangeRules()
        assert loaded.settings.agents["main"].evidence == "warn"


def test_json_list_and_refusals(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_changes(["--list"]) == 0 and RUN in capsys.readouterr().out
    assert run_changes(["--json", RUN[:8]]) == 0 and '"canUndo": true' in capsys.readouterr().out
    (work / "notes.md").write_text("mine\n")
    with pytest.raises(BadRequest, match=r"notes\.md was changed since"):
        run_undo([])
    assert run_undo(["--force", "--json"]) == 0
    with pytest.raises(NotFound):
        run_undo([])
    with pytest.raises(NotFound):
        run_changes(["nothing"])
