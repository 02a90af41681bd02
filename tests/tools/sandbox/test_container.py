"""The life of a container, against a `docker` of our own that writes down what it is asked."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from palinurus.core.types.sandbox import ContainerMount, ContainerSpec, SandboxSpec
from palinurus.tools.sandbox import docker
from palinurus.tools.sandbox.launch import prepare_launch, start_child

# state: "<label> <running>" in a file; every call is a line in the diary
FAKE = r"""#!/bin/sh
here=$(dirname "$0"); verb=$1; printf '%s\n' "$*" >> "$here/diary"
if [ -e "$here/fail-$verb" ]; then cat "$here/fail-$verb" >&2; exit 1; fi
case $verb in
inspect) [ -e "$here/state" ] && cat "$here/state" || { echo "No such container" >&2; exit 1; } ;;
create) for a in "$@"; do
    case $a in palinurus.box=*) echo "${a#palinurus.box=} false" > "$here/state";; esac
  done; echo id ;;
start) sed -i 's/false/true/' "$here/state"; echo started ;;
rm) rm -f "$here/state" ;;
exec) while [ $# -gt 0 ] && [ "$1" != box ]; do shift; done; shift; exec "$@" ;;
esac
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "docker").write_text(FAKE)
    (folder / "docker").chmod(0o755)
    monkeypatch.setattr(docker, "_PLACES", str(folder))
    return folder


def run(box: ContainerSpec, command: str) -> tuple[int, str]:
    launch = prepare_launch(("/bin/sh", "-c", command), "/", {"LANG": "C"}, SandboxSpec("docker", box=box))
    env = {**launch.env, "PATH": os.defpath}
    options: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "stdin": subprocess.DEVNULL}
    process = start_child(msgspec.structs.replace(launch, env=env), **options)
    out, _ = process.communicate(timeout=60)
    return process.returncode, out.decode()


def verbs(fake: Path) -> list[str]:
    return [line.split()[0] for line in (fake / "diary").read_text().splitlines()]


BOX = ContainerSpec("box", "image", mounts=(ContainerMount("/w", "/workspace", True),))


def test_made_once_then_entered(fake: Path) -> None:
    assert run(BOX, "echo in; exit 3") == (3, "in\n")
    assert verbs(fake) == ["inspect", "create", "start", "exec"]
    assert run(BOX, "echo again") == (0, "again\n")
    assert verbs(fake)[4:] == ["inspect", "exec"]


def test_a_stopped_one_is_started(fake: Path) -> None:
    run(BOX, "true")
    state = (fake / "state").read_text()
    (fake / "state").write_text(state.replace("true", "false"))
    assert run(BOX, "echo up") == (0, "up\n")
    assert verbs(fake)[4:] == ["inspect", "start", "exec"]


def test_a_box_that_changed_gets_a_new_one(fake: Path) -> None:
    run(BOX, "true")
    run(ContainerSpec("box", "newer", mounts=BOX.mounts), "true")
    assert verbs(fake)[4:] == ["inspect", "rm", "create", "start", "exec"]


def test_set_up_once(fake: Path) -> None:
    box = ContainerSpec("box", "image", setup="echo prepared >&2")
    assert run(box, "echo x") == (0, "x\n") and run(box, "echo y") == (0, "y\n")
    assert [line for line in (fake / "diary").read_text().splitlines() if "prepared" in line] == [
        "exec --interactive box sh -lc echo prepared >&2"
    ]


def test_a_failed_set_up_leaves_no_half_made_one(fake: Path) -> None:
    code, out = run(ContainerSpec("box", "image", setup="exit 9"), "echo never")
    assert code == 125 and "setupCommand failed" in out and "never" not in out
    assert verbs(fake)[-1] == "rm" and not (fake / "state").exists()


@pytest.mark.parametrize("verb", ["create", "start"])
def test_what_docker_says_is_told(fake: Path, verb: str) -> None:
    (fake / f"fail-{verb}").write_text("Cannot connect to the Docker daemon")
    code, out = run(BOX, "echo never")
    assert code == 125 and "Cannot connect to the Docker daemon" in out and "never" not in out


def test_two_at_once_share_the_one_that_won(fake: Path) -> None:
    """The loser's `create` finds the name taken, and goes on with the other's container."""
    (fake / "fail-create").write_text("Conflict. The container name is already in use")
    (fake / "fail-start").write_text("")
    code, out = run(BOX, "echo x")
    assert code == 125  # start failed here, but create's conflict was not the end
    assert verbs(fake) == ["inspect", "create", "start"] and "docker ended with 1" in out


def test_the_job_is_one_argument(fake: Path) -> None:
    line = docker.wrap_docker(("sh", "-c", "echo '$x'"), "/", {}, BOX)
    assert json.loads(line[-1])["enter"][-3:] == ["sh", "-c", "echo '$x'"]
