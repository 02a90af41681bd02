"""The commands of docs/nodes.md, as they stand there, on two homes of this machine; and how lists are written."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
from pathlib import Path

from cli.place import SRC
from flow.test_nodes import Machine, start_gateway, until
from nursery import run_program
from palinurus.cli.nodes.command import draw_code
from palinurus.cli.nodes.serve import NodeState, write_state
from palinurus.testing.home import make_home
from ports import reserve_port

PAGE = Path(__file__).parents[3] / "docs" / "nodes.md"
# What the lines print, in their order.
SAYS = [
    "setupCode", "", "shed on linux, connected: system.run", "Linux", "/sh", "terminal", "is called attic",
    '"displayName": "attic"', "paired", "stays out",
]  # fmt: skip


async def test_the_page_is_true(tmp_path: Path) -> None:
    block = re.search(r"```console\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert block is not None
    lines = block[1].strip().splitlines()
    assert len(lines) == len(SAYS)
    home = make_home(str(tmp_path), {"gateway": {"port": reserve_port()}}, {}, url="http://127.0.0.1:9/v1")
    machine = Machine(tmp_path / "there")
    env = {**os.environ, "PYTHONPATH": SRC}
    gateway = start_gateway({**env, "PALINURUS_HOME": home}, tmp_path)
    children, code = [gateway], ""
    try:
        await until(lambda: (Path(home) / "gateway.json").exists())
        for line, says in zip(lines, SAYS, strict=True):
            where, _, command = line.partition("$ pal ")
            words = [code if word == "CODE" else word for word in shlex.split(command)]
            if words[:2] == ["node", "run"]:
                children.append(machine.start(*words[2:]))
                await until(lambda: "connected to" in machine.said())
                continue
            at = home if where == "here" else str(machine.home)
            done = await asyncio.to_thread(run_program, *words, env={**env, "PALINURUS_HOME": at})
            assert done.returncode == 0 and says in done.stdout, (line, done.stdout, done.stderr)
            code = code or json.loads(done.stdout)["setupCode"]
        await until(lambda: children[1].poll() is not None)
        assert children[1].returncode == 77
        gone = await asyncio.to_thread(
            run_program, "nodes", "run", "attic", "--", "ls", env={**env, "PALINURUS_HOME": home}
        )
        assert gone.returncode != 0 and "no node" in gone.stderr
    finally:
        for child in children:
            child.terminate()
            await asyncio.to_thread(child.wait)


def test_a_code_as_a_picture() -> None:
    (drawn,) = draw_code("eyJ1cmwiOiJ3czovLzEyNy4wLjAuMSJ9")
    assert len({len(line) for line in drawn.strip("\n").splitlines()}) == 1 and "█" in drawn


def test_only_a_paired_node_becomes_a_service(tmp_path: Path) -> None:
    env = {**os.environ, "PALINURUS_HOME": str(tmp_path / "n"), "HOME": str(tmp_path), "PYTHONPATH": SRC}
    env |= {"PATH": "", "XDG_CONFIG_HOME": str(tmp_path / "etc")}  # nobody here keeps services
    unit = tmp_path / "etc" / "systemd" / "user" / "palinurus-node.service"
    refused = run_program("node", "install", env=env)
    assert refused.returncode == 64 and "pal node run --code" in refused.stderr and not unit.exists()
    write_state(str(tmp_path / "n"), NodeState("ws://127.0.0.1:9", "a-token", name="shed"))
    made = run_program("node", "install", env=env)
    assert made.returncode == 0 and "`pal node run` runs it" in made.stdout, made.stderr
    assert f'"--home" "{tmp_path}/n" "node" "run"' in unit.read_text()
    assert run_program("node", "uninstall", env=env).returncode == 0 and not unit.exists()
