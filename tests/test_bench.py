"""The gate and README's table: what they name is there. What they measure is for `make bench`."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    for name in ("gate", "readme", "measures", "client", "procs", "sockets", "system"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return ROOT / "bench"


def test_every_figure_of_the_gate_is_kept(bench: Path) -> None:
    import gate

    kept = json.loads((bench / "gate.json").read_text())
    assert list(kept) == list(gate.FIGURES) and all(value > 0 for value in kept.values())


@pytest.mark.parametrize(
    ("ratios", "times", "bad"),
    [
        ([1.2], 1, False),  # a fifth dearer is allowed
        ([1.4, 1.1], 2, False),  # a burst of somebody else's work
        ([1.4, 1.3, 1.2], 3, False),
        ([1.4, 1.3, 1.5], 3, True),
    ],
)
async def test_a_figure_is_too_dear_when_it_is_so_three_times(
    ratios: list[float], times: int, bad: bool, bench: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import gate

    order: list[str] = []

    async def measure(name: str) -> gate.Ratio:
        order.append(name)
        return gate.Ratio(ratios[order.count(name) - 1] if name == "turn" else 1.0, 1.0)

    kept = dict.fromkeys(gate.FIGURES, 1.0)
    looks = await gate.measure_all(measure, kept)
    assert order == [*gate.FIGURES, *["turn"] * (times - 1)]  # not at once: what slowed it down may pass
    assert gate._tell(looks, kept) == (["turn"] if bad else [])
    assert ("**too dear**" in capsys.readouterr().out) == bad


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
    assert rows and all(row.samples and min(row.samples) > 0 for row in rows)
