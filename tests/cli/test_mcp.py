"""`pal mcp`: the config, and one server tried out."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from palinurus.cli.mcp import run_mcp
from palinurus.errors import BadRequest, NotFound
from tools.mcp.kit import TINY

COMMAND = (TINY["command"], *TINY["args"])


def test_a_server_is_added_listed_and_removed(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_mcp(["add", "my files", "--env", "TOKEN=${HOME}", "--", "npx", "-y", "@x/files", "--deep"]) == 0
    assert "takes it over by itself" in capsys.readouterr().out
    assert run_mcp(["add", "far", "--json", "--url", "https://h.example/mcp?k=s3cret", "--header", "X-Key=a=b"]) == 0
    assert json.loads(capsys.readouterr().out)["name"] == "far"
    written = json.loads((home / "palinurus.json").read_text())["mcp"]["servers"]
    assert written == {
        "my files": {"command": "npx", "args": ["-y", "@x/files", "--deep"], "env": {"TOKEN": "${HOME}"}},
        "far": {"url": "https://h.example/mcp?k=s3cret", "headers": {"X-Key": "a=b"}},
    }
    capsys.readouterr()
    assert run_mcp(["list"]) == 0
    shown = capsys.readouterr().out
    assert "+ my files  stdio  npx" in shown and "https://h.example/mcp" in shown and "s3cret" not in shown
    assert run_mcp(["remove", "far"]) == 0
    capsys.readouterr()
    assert run_mcp(["list", "--json"]) == 0
    assert [row["name"] for row in json.loads(capsys.readouterr().out)] == ["my files"]


def test_lines_that_make_no_sense(home: Path) -> None:
    for line in (
        ["add", "x"],
        ["add", "x", "--url", "http://h", "--", "npx"],
        ["add", 'a"b', "--", "npx"],
        ["nonsense"],
    ):
        with pytest.raises(BadRequest):
            run_mcp(line)
    run_mcp(["add", "x", "--", "npx"])
    with pytest.raises(BadRequest, match="already"):
        run_mcp(["add", "x", "--", "npx"])
    for verb in ("test", "remove"):
        with pytest.raises(NotFound, match="no MCP server"):
            run_mcp([verb, "nobody"])


def test_a_server_that_works_is_shown_with_its_tools(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_mcp(["add", "tiny", "--", *COMMAND])
    capsys.readouterr()
    assert run_mcp(["test", "tiny"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("tiny: connected in ") and "tiny 1" in lines[0]
    assert any(line.startswith("  tiny__look (read-only)  [MCP server tiny] Reads.") for line in lines)
    assert lines[-1] == "8 tools"
    assert run_mcp(["test", "tiny", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["ok"] and len(told["tools"]) == 8 and told["protocol"]


def test_one_that_does_not_is_shown_with_what_it_said_and_a_way_out(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_mcp(["add", "gone", "--", "no-such-program"])
    run_mcp(["add", "fails", "--", *COMMAND, "--fail"])
    run_mcp(["add", "shut", "--url", "http://127.0.0.1:9/mcp"])
    capsys.readouterr()
    assert run_mcp(["test", "gone"]) == 1
    shown = capsys.readouterr().out
    assert "no-such-program is not there" in shown and "fix: install it" in shown
    assert run_mcp(["test", "fails"]) == 1
    shown = capsys.readouterr().out
    assert "  | Permission denied: /secret" in shown and "fix: it runs in a cell" in shown
    run_mcp(["add", "words", "--", *COMMAND, "--babble"])
    run_mcp(["add", "odd", "--", *COMMAND, "--odd"])
    capsys.readouterr()
    for name, words in (("words", "fix: is this the right address or command?"), ("odd", "the server is at fault")):
        assert run_mcp(["test", name]) == 1
        assert words in capsys.readouterr().out
    run_mcp(["add", "crowd", "--", *COMMAND, "--crowd"])
    assert run_mcp(["test", "crowd"]) == 0
    assert "; 496 more are not used: toolFilter.include chooses" in capsys.readouterr().out
    assert run_mcp(["test", "shut"]) == 1
    shown = capsys.readouterr().out
    assert "fix:" in shown and "Traceback" not in shown


def test_serve_says_when_no_gateway_is_there(home: Path, pal: object) -> None:
    done = pal("mcp", "serve")  # type: ignore[operator]
    assert done.returncode != 0 and "fix:" in done.stderr and done.stdout == ""
    assert "Traceback" not in done.stderr and sys.executable
