"""The pages of the docs are true: their commands run and say what it says; pages made from the program are as it is."""

from __future__ import annotations

import re
import runpy
import shlex
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from palinurus.cli.main import main
from ports import reserve_port

ROOT = Path(__file__).parents[1]
BARE = 68
MADE: dict[str, Any] = runpy.run_path(str(ROOT / "packaging" / "pages.py"))
# Pages whose `console` blocks are typed one after another into a new home, with nothing but the built-in demo. Those of
# other pages are conversations, which tests of their own play.
TYPED = (
    "first-hour approvals agents budgets context headless memory models plugins remote replay sessions skills "
    "troubleshooting"
).split()


def steps(page: str) -> list[tuple[str, str]]:
    """(command, what it says) of a page."""
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    found = []
    for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL):
        found += re.findall(r"^\$ (?:[a-z ]+\| )?pal ([^\n]*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
    return found


@pytest.mark.parametrize("page", TYPED)
def test_its_commands_run_and_say_what_the_page_says(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("PALINURUS_HOME", raising=False)
    main(["config", "set", "gateway.port", str(reserve_port())])
    if page != "first-hour":
        main(["setup", "--non-interactive"])
    rows = steps(page)
    assert len(rows) > 1
    for command, shown in rows:
        capsys.readouterr()
        try:
            code = main(list(takewhile(lambda word: word != "|", shlex.split(command, comments=True))))
        except SystemExit as left:
            code = left.code
        told = capsys.readouterr()
        assert code in (0, None) or (code == 3 and command == "status"), f"pal {command}: {code}\n{told.out}{told.err}"
        for line in shown.splitlines():
            assert line in told.out, f"pal {command} does not say {line!r}:\n{told.out}{told.err}"


@pytest.mark.parametrize("page", sorted(MADE["PAGES"]))
def test_pages_made_from_the_program_are_as_it_is(page: str) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    assert text == MADE["PAGES"][page](), "run: .venv/bin/python packaging/pages.py"


def test_errors_that_say_no_way_out_become_fewer() -> None:
    """Some need none (the message is the way out). Only a smaller number is put here."""
    bare = [row for row in MADE["find_errors"]() if not row[3] and not row[0].startswith("testing/")]
    assert len(bare) <= BARE, "give it a fix=:\n" + "\n".join(f"{file}: {message}" for file, message, *_ in bare)
