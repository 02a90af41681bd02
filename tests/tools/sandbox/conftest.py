"""A cell as an agent gets it, and a way to run a command line in it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from palinurus.agent.plan.sandbox import ToolSandbox, ToolSandboxes
from palinurus.config.load import load_config
from palinurus.core.types.keys import SessionKey
from palinurus.core.types.sandbox import SandboxSpec
from palinurus.tools.commands.environ import build_child_env
from palinurus.tools.sandbox import landlock
from palinurus.tools.sandbox.launch import prepare_launch, start_child
from palinurus.tools.sandbox.probe import detect_support

KINDS = [
    pytest.param(
        "namespaces", marks=pytest.mark.skipif(not detect_support().namespaces, reason="no namespaces can be made here")
    ),
    pytest.param(
        "landlock", marks=pytest.mark.skipif(landlock.landlock_version() < 6, reason="needs Landlock of kernel 6.12")
    ),
    pytest.param(
        "bubblewrap", marks=pytest.mark.skipif(not detect_support().bubblewrap, reason="bubblewrap does not work here")
    ),
]


class Ran(NamedTuple):
    code: int
    out: str


class Room:
    """The default agent's cell of one kind, in a state directory of its own."""

    def __init__(self, root: Path, kind: str, **sandbox: Any) -> None:
        self.root, self.user = root, root / "user"
        self.user.mkdir(exist_ok=True)
        home = root / "state"
        home.mkdir(exist_ok=True)
        config = {"agents": {"defaults": {"sandbox": {"contain": kind, **sandbox}}}}
        (home / "palinurus.json").write_text(json.dumps(config))
        loaded = load_config(str(home), {"HOME": str(self.user)})
        self.env = build_child_env({"HOME": str(self.user)}, {})
        agent = loaded.settings.agents["main"]
        self.where: ToolSandbox = ToolSandboxes(loaded.settings, self.env).of(agent, SessionKey("main", "main"))
        self.cell: SandboxSpec = self.where.cell
        self.workspace = Path(self.where.workspace)

    def run(self, command: str, **changes: Any) -> Ran:
        cell = msgspec.structs.replace(self.cell, **changes)
        argv = ("/bin/sh", "-c", command)
        launch = prepare_launch(argv, str(self.workspace), {**self.env, **self.where.env}, cell)
        process = start_child(launch, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        out, _ = process.communicate(timeout=60)
        return Ran(process.wait(), out.decode("utf-8", "replace"))


@pytest.fixture(params=KINDS)
def room(request: pytest.FixtureRequest, tmp_path: Path) -> Room:
    return Room(tmp_path, request.param)


@pytest.fixture
def room_of(tmp_path: Path) -> Callable[..., Room]:
    def make(kind: str = "landlock", **sandbox: Any) -> Room:
        if kind == "landlock" and landlock.landlock_version() < 6:
            pytest.skip("needs Landlock of kernel 6.12")
        if kind == "namespaces" and not detect_support().namespaces:
            pytest.skip("no namespaces can be made here")
        if kind == "bubblewrap" and not detect_support().bubblewrap:
            pytest.skip("bubblewrap does not work here")
        return Room(tmp_path, kind, **sandbox)

    return make
