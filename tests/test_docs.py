"""The README's commands run, and print what it shows."""

from __future__ import annotations

import contextlib
import html
import importlib
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from palinurus.cli.main import COMMANDS, main

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def shown() -> list[tuple[str, str]]:
    """(command line after `pal`, output) of the README's first console block."""
    block = re.search(r"```console\n(.*?)```", README, re.DOTALL)
    assert block is not None
    found = re.findall(r"\$ \.venv/bin/pal ([^\n]*)\n((?:(?!\$ ).*\n)*)", block.group(1))
    assert len(found) == 2
    return found


def test_the_first_screen_is_true(tmp_path: Path) -> None:
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PALINURUS_HOME": str(tmp_path / "home")}
    for command, output in shown():
        line = f"{sys.executable} -m palinurus {command}"
        done = subprocess.run(line, shell=True, env=environ, capture_output=True, text=True, timeout=60)
        assert (done.stdout, done.returncode) == (output, 0), done.stderr


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(re.findall(r"`make (\w+)`", README)) <= targets


@pytest.mark.parametrize("page", ["README.md", "docs/tour.md", "docs/plugins.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_commands_named_in_the_docs_exist(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    named = set(re.findall(r"`pal ([a-z]+)", text))
    assert named <= set(COMMANDS), named - set(COMMANDS)


def test_every_claim_has_a_command_that_exists(capsys: pytest.CaptureFixture[str]) -> None:
    """README's claims: the verbs and options of their commands are those that `--help` knows."""
    part = re.search(r"## Check it yourself\n(.*?)\n## ", README, re.DOTALL)
    assert part is not None
    rows = [line for line in part[1].splitlines() if line.startswith("| ") and "claim | command" not in line]
    assert len(rows) >= 10 and all(re.search(r"`(pal|make) ", row) for row in rows), rows
    for line in re.findall(r"`pal ([^`]+)`", part[1]):
        words = re.sub(r'"[^"]*"', "TEXT", line).split()
        with pytest.raises(SystemExit) as left:
            main([words[0], "--help"])
        told = capsys.readouterr().out
        assert left.value.code == 0 and "usage: pal" in told, line
        if (verb := words[1:2]) and re.fullmatch(r"[a-z]+", verb[0]):
            assert verb[0] in told, line
            with contextlib.suppress(SystemExit):
                main([*words[:2], "--help"])
            told += capsys.readouterr().out
        assert all(word in told for word in words if word.startswith("-")), line
    for word in re.findall(r"`make (\w+)`", part[1]):
        assert f"\n{word}:" in (ROOT / "Makefile").read_text(encoding="utf-8")
    for name in re.findall(r"examples/\w+|docs/[\w.]+", part[1]):
        assert (ROOT / name).exists(), name


def test_files_named_in_the_tour_exist() -> None:
    text = (ROOT / "docs" / "tour.md").read_text(encoding="utf-8")
    folders = {re.split(r"[ ,:*]", name)[0] for name in re.findall(r"\*\*([a-z/_.]+)", text)}
    assert folders and all((ROOT / "src" / "palinurus" / f).exists() for f in folders), folders


def test_where_is_everything() -> None:
    """docs/where.md names files that exist, and something of every folder of the package."""
    source = ROOT / "src" / "palinurus"
    text = (ROOT / "docs" / "where.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([a-z0-9_/]+\.py)`", text))
    assert len(named) > 100
    assert not [name for name in sorted(named) if not (source / name).is_file()]
    folders = {path.parent.relative_to(source).as_posix() for path in source.rglob("*.py")}
    assert not folders - {Path(name).parent.as_posix() for name in named}


def test_new_names_exist() -> None:
    """What docs/renames.md promises to embedders and plugin authors can be imported."""
    text = (ROOT / "docs" / "renames.md").read_text(encoding="utf-8")
    named = re.findall(r"^\| `[\w.]+` \| `([\w.]+)` \|$", text, re.MULTILINE)
    assert len(named) > 100
    for name in named:
        module, _, attribute = ("palinurus." + name.removeprefix("palinurus.")).rpartition(".")
        assert hasattr(importlib.import_module(module), attribute), name


# Words in ticks that look like files or classes of ours and are none.
OTHERS = {"Host", "Optional", "Thinking", "Precedence", "Up", "None", "plugin.py", "handler.py"}


def test_names_in_docs_and_docstrings_exist() -> None:
    """A file or a class that a text names is there: nobody is sent to something that was renamed."""
    source = ROOT / "src" / "palinurus"
    files = {path.relative_to(source).as_posix(): path.read_text(encoding="utf-8") for path in source.rglob("*.py")}
    words = set(re.findall(r"\w+", "\n".join(re.sub(r"`[^`]*`|#.*", "", text) for text in files.values())))
    texts = {"docs/" + path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md")}
    texts |= files
    bad = []
    for where, text in texts.items():
        for named in set(re.findall(r"`((?:palinurus/)?[a-z_/]+\.py|[A-Z][a-z]+[A-Za-z]*)`", text)) - OTHERS:
            name = named.removeprefix("palinurus/")
            ends = any(file == name or file.endswith("/" + name) for file in files) or (ROOT / name).exists()
            if not (ends if name.endswith(".py") else name in words) and "renames" not in where:
                bad.append(f"{where}: {named}")
    assert not bad, "\n".join(sorted(bad))


def test_the_film_of_the_readme_shows_its_first_screen() -> None:
    """What it shows was run when it was recorded (`make screenshots`); the lines are still those of the README."""
    film = runpy.run_path(str(ROOT / "packaging" / "film.py"))
    text = html.unescape((ROOT / "docs" / "first-minute.svg").read_text(encoding="utf-8"))
    assert "docs/first-minute.svg" in README
    for command, output in shown():
        assert f"pal {command}" in film["TALK"]
        assert all(f">{line}</text>" in text for line in output.splitlines()), command
    drawn = film["draw"]([("pal x", ["a < b"])])
    assert ">a &lt; b</text>" in drawn and "prefers-reduced-motion" in drawn
