"""Whatever the docs show runs, or is read by the part that would read it: config, command lines, Python, figures."""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib
import io
import json
import re
import runpy
import shlex
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from palinurus.cli.main import COMMANDS
from palinurus.config.load import judge_config
from palinurus.errors import PalinurusError
from test_pages import TYPED

ROOT = Path(__file__).parents[1]
TESTS = ROOT / "tests"
MADE: dict[str, Any] = runpy.run_path(str(ROOT / "packaging" / "pages.py"))
ELSEWHERE = "no such agent|names nobody"  # a piece may speak of what another piece sets up
# Who plays a page's `console` blocks (test_pages.py types those of the pages it names) and who runs its Python.
PLAYED = {
    "changes.md": "cli/look/test_changes.py", "chat.md": "flow/test_dialogue.py", "fleet.md": "flow/test_rolling.py",
    "nodes.md": "cli/nodes/test_command.py", "testing.md": "test_examples.py", "tools.md": "flow/test_tools.py",
    "README.md": "test_docs.py",
}  # fmt: skip
RUN = {
    "adding.md": "test_adding.py", "embedding.md": "test_examples.py", "plugins.md": "test_examples.py",
    "testing.md": "test_examples.py", "README.md": "flow/test_http.py",
    "headless.md": "../compat/agentsdk.py",  # needs the SDK, which `make compat` installs
    "python.md": "test_pages.py",  # signatures, made from the program
}  # fmt: skip


@cache
def list_pages() -> list[Path]:
    """What people read; decisions tell what was."""
    pages = [page for page in (ROOT / "docs").rglob("*.md") if "decisions" not in page.parts]
    return [*sorted(pages), ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"]


def list_blocks(kinds: str) -> list[tuple[Path, str]]:
    """(page, text) of every block of these languages."""
    form = re.compile(rf"^```(?:{kinds})\n(.*?)^```", re.DOTALL | re.MULTILINE)
    return [(page, block) for page in list_pages() for block in form.findall(page.read_text(encoding="utf-8"))]


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


@pytest.fixture(scope="module")
def parsers(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The parser for a command and the words after it, as the program itself chooses one."""
    home, known = str(tmp_path_factory.mktemp("home")), {}

    def find(command: str, *words: str) -> argparse.ArgumentParser:
        apart = command in (*MADE["APART"], *MADE["SERVICE"]) and bool(words) and words[0].isalpha()
        key = (command, *words[:1]) if apart else (command,)
        if key not in known:
            known[key] = MADE["find_parser"](command, home, *key[1:])
        return known[key]

    return find


def test_every_command_line_is_one(parsers: Any) -> None:
    """In a block of any kind, or set apart: it is understood, with its verb, options and number of words."""
    wrong, seen = [], 0
    for page in list_pages():
        text = page.read_text(encoding="utf-8")
        for line in re.findall(r"^(?:    |(?:here|there)?\$ )?pal ([a-z][^|&<>;\n]*)$", text, re.MULTILINE):
            command, *words = shlex.split(re.split(r"\s{2,}", line)[0], comments=True)  # a gap, then a remark
            if not words or "[" in line or page.name == "cli-parity.md":
                continue
            parser = parsers(command, *words)
            if command in MADE["APART"] and words and parser.prog.endswith(words[0]):
                words = words[1:]
            seen += 1
            with contextlib.redirect_stderr(io.StringIO()) as told:
                try:
                    (parser.parse_intermixed_args if command == "message" else parser.parse_args)(words)
                except (SystemExit, PalinurusError) as exc:
                    wrong.append(f"{page.name}: pal {line}: {exc} {told.getvalue()}")
    assert not wrong and seen > 90, f"{seen}\n" + "\n".join(wrong)


def find_span_fault(line: str, parsers: Any) -> str:
    """What is wrong with a command that a sentence names; it may leave out what it is not about."""
    command, *words = line.replace("[", "").replace("]", "").split()
    if command not in COMMANDS:
        return "no such command"
    known = parsers(command, *words)
    verbs = MADE["list_verbs"](known)
    options = {name for action in known._actions for name in action.option_strings}
    for verb in next((word for word in words if re.fullmatch(r"[a-z][a-z|-]+", word)), "").split("|"):
        if verbs and verb and verb not in verbs:
            return f"no such verb: {verb}"
        options |= (
            {name for action in verbs[verb]._actions for name in action.option_strings} if verb in verbs else set()
        )
    named = {match[0] for word in words if (match := re.match(r"--?[a-zA-Z][\w-]*", word))}
    return f"no such option: {named - options}" if named - options and "--" not in words else ""


def test_every_command_that_a_sentence_names_is_there(parsers: Any) -> None:
    wrong, seen = [], 0
    for page in [*list_pages(), ROOT / "CHANGELOG.md"]:
        for span in re.findall(r"`pal ([a-z][^`]*)`", page.read_text(encoding="utf-8")):
            line = re.sub(r"^[a-z|]+\|", "", " ".join(span.split()))  # `pal changes|undo|redo`: the last of them
            if page.name not in ("cli-parity.md", "python.md"):
                seen += 1
                wrong += [f"{page.name}: pal {line}: {fault}"] if (fault := find_span_fault(line, parsers)) else []
    assert not wrong and seen > 500, "\n".join(wrong)


@pytest.mark.parametrize(
    ("line", "fault"),
    [("nosuch", "command"), ("cron ad", "verb: ad"), ("cron add --nosuch", "--nosuch"), ("models add --name lab", "")],
)
def test_a_command_that_is_not_there_would_be_told(line: str, fault: str, parsers: Any) -> None:
    found = find_span_fault(line, parsers)
    assert fault in found and bool(fault) == bool(found)


def test_every_piece_of_python_is_some() -> None:
    """It can be read, and what it takes from us is there."""
    for page, block in list_blocks("python"):
        text = f"def {block.strip()}: ..." if page.name == "python.md" else block  # lines of signatures
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("palinurus"):
                module = importlib.import_module(node.module or "")
                assert all(hasattr(module, name.name) for name in node.names), f"{page.name}: {ast.unparse(node)}"


def test_every_page_with_commands_or_python_has_somebody_who_runs_them() -> None:
    typed = {f"{name}.md" for name in TYPED}
    assert {page.name for page, _ in list_blocks("console")} == typed | PLAYED.keys()
    assert {page.name for page, _ in list_blocks("python")} == RUN.keys()
    for page, file in (PLAYED | RUN).items():
        assert page == "python.md" or page.removesuffix(".md") in (TESTS / file).read_text(), f"{file} knows no {page}"


def test_the_tool_that_names_its_reach_is_one() -> None:
    (code,) = [text for page, text in list_blocks("python") if page.name == "plugins.md" and "ToolReach" in text]
    names: dict[str, Any] = {}
    exec(code, names)
    made = names["send_money"]
    assert (made.name, made.reach.to, made.reach.upto, made(recipient="a", amount=1)) == (
        "send_money",
        ("recipient",),
        ("amount",),
        "sent",
    )


def test_every_channel_leads_to_its_first_answer() -> None:
    """What to set, and how who writes is let in."""
    pages = [page for page in list_pages() if page.parent.name == "channels"]
    text = {page.name: page.read_text(encoding="utf-8") for page in pages}
    assert len(text) > 15 and not [
        name for name, words in text.items() if not re.search(r"pal\s+pairing\s+approve", words)
    ]
    assert not [
        name
        for name, words in text.items()
        if "channels add" not in words and "channels:" not in words and '"channels"' not in words
    ]


MEASURED = re.compile(r"\d\.\d+ (?:ms|s|MB|kB)\b|\d turns a second")
MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
WHEN = re.compile(rf"\d{{1,2}} (?:{MONTHS}) 20\d\d|20\d\d-\d\d-\d\d")
HOW = re.compile(r"`make \w+|`pal \w+")
NOT_OURS = {"cli.md", "config.md", "errors.md", "vendors.md"}  # sizes and limits, made from the program


def find_undated(text: str) -> list[str]:
    """Figures in a part of a page that says neither when they were measured nor with which command."""
    parts = re.split(r"^#+ ", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE), flags=re.MULTILINE)
    parts = [" ".join(part.split()) for part in parts]
    return [
        found[0] for part in parts if (found := MEASURED.search(part)) and not (WHEN.search(part) and HOW.search(part))
    ]


def test_figures_say_when_and_how_they_were_measured() -> None:
    assert find_undated("# A\n\nIt takes 1.5 s (`make bench`).\n") == ["1.5 s"]
    assert find_undated("# A\n\nIt takes 1.5 s (`make bench`, 3 May 2026).\n") == []
    pages = [page for page in list_pages() if page.name not in NOT_OURS]
    assert {page.name: found for page in pages if (found := find_undated(page.read_text(encoding="utf-8")))} == {}
