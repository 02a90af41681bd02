"""`pal completion`: every command and verb is in the tree, and real shells complete by it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from palinurus.cli.args import TALKING
from palinurus.cli.main import COMMANDS, main
from palinurus.cli.upkeep.completion import (
    CompletionNode,
    collect_nodes,
    locate_completion,
    write_bash,
    write_fish,
    write_zsh,
)


@pytest.fixture(scope="module")
def nodes() -> list[CompletionNode]:
    return list(collect_nodes())


def test_every_command_and_verb_is_there(nodes: list[CompletionNode]) -> None:
    found = {node.words: node for node in nodes}
    assert set(found[()].next) == set(COMMANDS)
    assert "restart" in found["gateway",].next and "--port" in found["gateway",].options
    assert found["sessions", "export"].values["--format"] == ("jsonl", "json", "markdown", "html")
    assert "--encrypt" in found["backup", "create"].options and "--json" in found["models",].options
    assert "--name" in found["models", "add"].options  # which has a parser of its own
    assert found["completion",].next.keys() == {"bash", "zsh", "fish"}
    own = {"test", "torture"}  # with parsers that are not of this make
    assert [node.words for node in nodes if not node.next and not node.options and not own & {*node.words}] == []


def test_every_line_has_json_but_those_that_talk(nodes: list[CompletionNode]) -> None:
    missing = {" ".join(("pal", *node.words)) for node in nodes if not node.next and "--json" not in node.options}
    assert missing <= TALKING, missing - TALKING


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("pal comp", ["completion"]),
        ("pal backup ", ["--help", "-h", "create", "list", "restore", "verify"]),
        ("pal --profile x backup cre", ["create"]),
        ("pal --home /tmp backup create --enc", ["--encrypt"]),
        ("pal sessions export --format j", ["json", "jsonl"]),
        ("pal gateway rest", ["restart"]),
        ("pal agent -m status --thi", ["--thinking"]),
    ],
)
def test_bash_completes(nodes: list[CompletionNode], tmp_path: Path, line: str, wanted: list[str]) -> None:
    (tmp_path / "pal").write_text(write_bash(nodes))
    script = f"""source {tmp_path}/pal
COMP_WORDS=({line}{" ''" if line.endswith(" ") else ""}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _pal
printf '%s\\n' "${{COMPREPLY[@]}}" | sort"""
    done = subprocess.run(
        ["bash", "--norc", "-uc", script], capture_output=True, text=True, env={"LC_ALL": "C", **os.environ}
    )
    assert done.stderr == "" and sorted(done.stdout.split()) == sorted(wanted)


@pytest.mark.skipif(not shutil.which("fish"), reason="fish is not installed")
def test_fish_completes(nodes: list[CompletionNode], tmp_path: Path) -> None:
    (tmp_path / "pal.fish").write_text(write_fish(nodes))
    script = f"source {tmp_path}/pal.fish; complete -C 'pal backup cre'"
    done = subprocess.run(["fish", "-Nc", script], capture_output=True, text=True)
    assert done.stdout.startswith("create") and done.stderr == ""


@pytest.mark.skipif(not shutil.which("zsh"), reason="zsh is not installed")
def test_zsh_reads_it(nodes: list[CompletionNode], tmp_path: Path) -> None:
    (tmp_path / "_pal").write_text(write_zsh(nodes))
    done = subprocess.run(["zsh", "-fn", str(tmp_path / "_pal")], capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == ""


def test_it_is_put_where_the_shell_looks(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash", "--install"]) == 0
    path = locate_completion("bash", os.environ.get)
    assert path in capsys.readouterr().out
    assert (
        Path(path).read_text().startswith("# what `pal completion bash` printed")
        and Path(path).stat().st_mode & 0o111 == 0
    )
