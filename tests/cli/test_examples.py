"""Every command shows lines that work."""

from __future__ import annotations

from pathlib import Path

import pytest

from palinurus.cli.examples import EXAMPLES
from palinurus.cli.main import COMMANDS, main

OWN = {"print", "update", "reset", "uninstall", "completion", "qr", "test", "torture"}  # these tell theirs themselves
DOCS = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - OWN))
def test_help_has_an_example(name: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([name, "--help"])
    assert f"examples:\n  {EXAMPLES[name][0]}\n" in capsys.readouterr().out


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_name_what_there_is(name: str) -> None:
    told = DOCS.partition(f"\n## pal {name}\n")[2].partition("\n## ")[0]
    for line in EXAMPLES[name]:
        words = (word for word in line.rpartition("pal ")[2].split() if word.startswith("--"))
        assert all(word in told for word in words if word not in ("--profile", "--help")), line
