"""The pages of the docs are true: their commands run and say what it says; pages made from the program are as it is."""

from __future__ import annotations

import ast
import contextlib
import importlib
import io
import json
import re
import runpy
import shlex
from pathlib import Path
from typing import Any

import pytest

from palinurus.cli.main import main
from palinurus.config.load import judge_config
from palinurus.errors import PalinurusError

ROOT = Path(__file__).parents[1]
BARE = 68
ELSEWHERE = "no such agent|names nobody"  # a piece may speak of what another piece sets up
MADE: dict[str, Any] = runpy.run_path(str(ROOT / "packaging" / "pages.py"))
# Pages whose `console` blocks are typed one after another into a new home, with nothing but the built-in demo. Those of
# other pages are conversations, which tests of their own play.
TYPED = ("first-hour approvals agents budgets context memory models remote sessions skills troubleshooting").split()


def steps(page: str) -> list[tuple[str, str]]:
    """(command, what it says) of a page."""
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    found = []
    for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL):
        found += re.findall(r"^\$ pal ([^\n]*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
    return found


@pytest.mark.parametrize("page", TYPED)
def test_its_commands_run_and_say_what_the_page_says(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("PALINURUS_HOME", raising=False)
    if page != "first-hour":
        main(["setup", "--non-interactive"])
    rows = steps(page)
    assert len(rows) > 1
    for command, shown in rows:
        capsys.readouterr()
        try:
            code = main(shlex.split(command))
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


def list_blocks(kinds: str) -> list[tuple[Path, str]]:
    """(page, text) of every block of these languages; decisions tell what was."""
    pages = [page for page in (ROOT / "docs").rglob("*.md") if "decisions" not in page.parts]
    form = re.compile(rf"^```(?:{kinds})\n(.*?)^```", re.DOTALL | re.MULTILINE)
    return [(page, block) for page in sorted(pages) for block in form.findall(page.read_text(encoding="utf-8"))]


def test_every_piece_of_configuration_is_one(tmp_path: Path) -> None:
    """`json5` in the docs is configuration: no key in it is unknown, wrong or without effect. `json` is other data."""
    wrong = []
    for page, block in list_blocks("json5"):
        text = block if block.lstrip().startswith(("{", "//")) else f"{{{block}}}"
        environ = dict.fromkeys(re.findall(r"\$\{(\w+)", text), "x")
        read = judge_config(text, str(tmp_path / "palinurus.json"), str(tmp_path), environ)
        wrong += [
            f"{page.name}: {one}" for one in (*read.problems, *read.inert) if not re.search(ELSEWHERE, one.message)
        ]
    assert not wrong, "\n".join(wrong)
    for page, block in list_blocks("json"):
        assert json.loads(block) is not None, page


def test_every_command_line_is_one(tmp_path: Path) -> None:
    """Lines that no test types are at least understood: command, verb, options, number of words."""
    wrong, seen = [], 0
    parsers: dict[str, Any] = {}
    for page, block in list_blocks("console|sh"):
        for line in re.findall(r"^(?:\$ )?pal ([a-z][^#|&<>;\n]*)$", block, re.MULTILINE):
            command, *words = shlex.split(re.split(r"\s{2,}", line)[0])  # what follows a gap is a remark
            if page.stem in TYPED or command == "models":  # whose verbs have parsers of their own
                continue
            if command not in parsers:
                parsers[command] = MADE["find_parser"](command, str(tmp_path))
            seen += 1
            with contextlib.redirect_stderr(io.StringIO()) as told:
                try:
                    parsers[command].parse_args(words)
                except (SystemExit, PalinurusError) as exc:
                    wrong.append(f"{page.name}: pal {line}: {exc} {told.getvalue()}")
    assert not wrong and seen > 20, "\n".join(wrong)


def test_every_piece_of_python_is_some() -> None:
    """It can be read, and what it takes from us is there; tests of their own run most of it (adding, plugins)."""
    for page, block in list_blocks("python"):
        text = f"def {block.strip()}: ..." if page.name == "python.md" else block  # lines of signatures
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("palinurus"):
                module = importlib.import_module(node.module or "")
                assert all(hasattr(module, name.name) for name in node.names), f"{page.name}: {ast.unparse(node)}"
