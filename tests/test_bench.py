"""The gate and README's table: what they name is there. What they measure is for `make bench`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    for name in ("counts", "gate", "readme", "measures", "client", "procs", "sockets", "system"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return ROOT / "bench"


def test_every_figure_of_the_gate_is_kept(bench: Path) -> None:
    import gate

    kept = json.loads((bench / "gate.json").read_text())
    assert list(kept["ratios"]) == list(gate.FIGURES)
    wanted = "memory version once ready modules first turn operations bytes read exec rpc"
    assert list(kept["counts"]) == wanted.split()
    assert all(value > 0 for part in ("counts", "ratios") for value in kept[part].values())


def test_a_count_that_grew_by_more_than_a_tenth_fails(bench: Path) -> None:
    import counts

    said: list[str] = []
    kept = {"turn": 100.0, "read": 100.0, "bytes": 100.0}
    assert counts.judge({"turn": 110.0, "read": 110.5, "bytes": 50.0, "new": 1.0}, kept, said.append) == ["read", "new"]
    assert [line.rpartition(" | ")[2] for line in said[1:]] == ["ok |", "**too much** |", "ok |", "**too much** |"]


def test_what_is_counted_is_the_same_however_often_it_is_counted(bench: Path, tmp_path: Path) -> None:
    """The calls of all threads, at the end; what a signal asks for is asked for by `make bench`."""
    file = tmp_path / "counts"
    environ = {**os.environ, "PYTHONHASHSEED": "0", "PALINURUS_HOME": str(tmp_path)}
    for _ in range(2):
        argv = [sys.executable, str(bench / "counted.py"), str(file), "--version"]
        done = subprocess.run(argv, env=environ, check=True, capture_output=True, text=True)
        assert done.stdout.strip()
    first, second = (json.loads(line) for line in file.read_text().splitlines())
    assert first == second and first["calls"] > 100 and first["modules"] > 30


def test_the_table_of_the_readme_is_written_from_a_run(
    bench: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import readme
    from measures import Row

    copy = tmp_path / "README.md"
    copy.write_text((ROOT / "README.md").read_text())
    monkeypatch.setattr(readme, "README", str(copy))
    before = copy.read_text()
    rows = [Row(what, [0.2, 0.125, 7.0], "s") for what, _ in readme.CELLS.values()]
    readme.write([*rows, Row("200 sessions at once, bare client", [1.04], "s")], 0.4)
    text = copy.read_text()
    assert text.count("0.20 s") == 3 and text.count("0.2 ms") == 2 and "(a bare client: 1.0 s)" in text
    assert re.search(r"measured on \d{4}-\d\d-\d\d \(load 0\.4\)", text)
    rest = re.compile(f"{re.escape(readme.BEGIN)}.*?{re.escape(readme.END)}", re.DOTALL)
    assert rest.sub("", text) == rest.sub("", before)
    peers = [line.split("|")[3:] for line in text.splitlines() if line.startswith("| ")]
    assert peers == [line.split("|")[3:] for line in before.splitlines() if line.startswith("| ")]


def test_a_run_without_all_of_it_writes_nothing(bench: Path) -> None:
    import readme

    before = (ROOT / "README.md").read_bytes()
    with pytest.raises(SystemExit):
        readme.write([], 0.0)
    assert (ROOT / "README.md").read_bytes() == before


@pytest.mark.parametrize("name", ["decode", "store"])
async def test_measures_without_a_gateway_measure(name: str, bench: Path, tmp_path: Path) -> None:
    """Their names in the product are strings: one that is renamed there must not be found out by who waits for
    figures."""
    import measures

    rows = await measures.ALL[name][0](measures.Bench(SimpleNamespace(root=str(tmp_path)), None, quick=True))
    # a clock that ticks coarsely sees no time pass in the short ones
    assert rows and all(row.samples and min(row.samples) >= 0 and max(row.samples) > 0 for row in rows)
