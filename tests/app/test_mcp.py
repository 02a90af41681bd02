"""How servers' programs are started, and what is not loaded without them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from palinurus.app.mcp import McpLauncher
from palinurus.tools.sandbox.probe import detect_support
from tools.mcp.kit import settings


def test_the_sdk_is_not_loaded_before_a_server_is_used() -> None:
    code = (
        "import palinurus.app.program, palinurus.cli.mcp, sys; print({'mcp', 'pydantic', 'anyio'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "set()", done.stderr


@pytest.mark.skipif(detect_support().best() == "none", reason="this machine cannot contain programs")
def test_a_cell_shows_the_program_its_package_and_what_was_named(tmp_path: Path) -> None:
    package, data = tmp_path / "package", tmp_path / "data"
    (package / "dist").mkdir(parents=True)
    data.mkdir()
    (package / "package.json").write_text("{}")
    (package / "dist" / "index.js").write_text("")
    program = tmp_path / "tool" / "bin" / "run"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    body = {"command": str(program), "args": [str(package / "dist" / "index.js"), str(data), "/", "rel/ative"]}
    here = settings(tmp_path / "h", {"one": body, "two": body})
    start = McpLauncher(here, os.environ, "")
    cell = start(here.mcp.servers["one"]).cell
    assert {str(tmp_path / "tool"), str(package), str(data)} <= set(cell.read) and "/" not in cell.read
    home = here.home
    assert not any(path == home or path.startswith(f"{home}/workspace") for path in (*cell.read, *cell.write))
    other = start(here.mcp.servers["two"]).cell
    assert cell.temporary != other.temporary and not set(cell.write) & {other.temporary}


def test_the_environment_is_not_inherited(tmp_path: Path) -> None:
    body = {"command": "sh", "env": {"A": "1", "HOME": "/declared"}, "sandbox": False, "cwd": str(tmp_path)}
    here = settings(tmp_path / "h", {"one": body})
    launch = McpLauncher(here, {"SECRET": "s", "HOME": "/u", "LANG": "C"}, "")(here.mcp.servers["one"])
    assert launch.env["A"] == "1" and launch.env["HOME"] == "/declared" and "SECRET" not in launch.env
    assert launch.cwd == str(tmp_path) and launch.cell.kind == "none"


def test_lives_do_not_share_a_mark(tmp_path: Path) -> None:
    here = settings(tmp_path / "h", {})
    assert McpLauncher(here, {}, "").mark("x") != McpLauncher(here, {}, "test 1").mark("x")
