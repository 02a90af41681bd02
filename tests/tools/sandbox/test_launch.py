"""The one door: ordinary work goes on inside, what cannot be contained is not started."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from palinurus.core.types.sandbox import SEPARATE, ContainerSpec, SandboxSpec
from palinurus.tools.sandbox.launch import prepare_launch, start_child

PYTHON = sys.executable
NO_HANDLES = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}

# What developers do all day. The program that has to be there, the command, what it prints.
WORK = [
    ("git", "git init -q . && git add -A && git status --short && echo done", "done"),
    ("git", "git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x && git log --oneline | wc -l", "1"),
    ("make", "printf 'all:\\n\\t@echo made\\n' > Makefile && make", "made"),
    ("gcc", "printf 'int main(void){return 0;}' > a.c && gcc a.c -o a && ./a && echo built", "built"),
    ("sh", f"{PYTHON} -m pip --version", "pip "),
    ("sh", f"echo 'def test_x(): pass' > test_x.py && {PYTHON} -m pytest -q -p no:cacheprovider test_x.py", "passed"),
    ("sh", f"{PYTHON} -c 'from multiprocessing import Pool; print(sum(Pool(2).map(int, range(4))))'", "6"),
    ("sh", f"{PYTHON} -c 'import asyncio; asyncio.run(asyncio.sleep(0)); print(1)'", "1"),
    ("sh", f"{PYTHON} -c 'import ssl; ssl.create_default_context(); print(1)'", "1"),
    ("npm", "npm --version", "."),
    ("node", "node -e 'console.log(6 * 7)'", "42"),
    ("sh", "mkdir -p a/b && echo x > a/b/c && mv a/b/c a/d && cat a/d && rm -r a", "x"),
    ("sh", "f=$(mktemp) && echo y > $f && cat $f && rm $f", "y"),
    ("sh", "cat <<EOF | sort | head -1\nb\na\nEOF", "a"),
    ("bash", "bash -c 'diff <(echo a) <(echo a) && echo same'", "same"),
    ("sh", "echo ok > ~/note && cat ~/note", "ok"),
    ("sh", "ls /usr /etc/passwd >/dev/null && id -u >/dev/null && date >/dev/null && echo fine", "fine"),
    ("sh", "head -1 /proc/meminfo && cat /proc/self/comm", "cat"),
    ("ps", "ps >/dev/null && echo fine", "fine"),
    ("tar", "echo x > x && tar czf x.tgz x && tar tzf x.tgz", "x"),
]  # fmt: skip


@pytest.mark.parametrize(("needs", "command", "says"), WORK)
def test_ordinary_work(room: Any, needs: str, command: str, says: str) -> None:
    if shutil.which(needs, path=room.env["PATH"]) is None:
        pytest.skip(f"{needs} is not installed")
    if "git -c" in command:
        room.run("git init -q .")
    code, out = room.run(command)
    assert code == 0 and says in out, out


def test_the_root_can_be_listed_where_there_are_namespaces(room: Any) -> None:
    """Landlock grants a folder with all that is below it, so `/` itself cannot be opened there."""
    code, out = room.run("ls /")
    assert ("usr" in out.split() and code == 0) == (room.cell.kind == "bubblewrap"), out


def test_namespaces_have_a_tmp_of_their_own(room: Any) -> None:
    code, out = room.run("echo x > /tmp/mine && ls /tmp")
    if room.cell.kind in SEPARATE:
        assert "mine" in out.split() and (Path(room.cell.temporary) / "mine").exists()
    else:
        assert code != 0 and not Path("/tmp/mine").exists()


def test_the_exit_code_and_the_environment_come_through(room: Any) -> None:
    assert room.run("exit 7").code == 7
    home, temporary = room.run("echo $HOME; echo $TMPDIR").out.split()
    assert home.startswith(str(room.root)) and temporary in (room.cell.temporary, "/tmp")


def test_limits_hold(room: Any) -> None:
    assert room.run("ulimit -n; ulimit -c").out.split() == ["4096", "0"]


@pytest.mark.parametrize("cell", [SandboxSpec(kind="docker"), SandboxSpec(kind="docker", box=ContainerSpec("x", "y"))])
def test_a_cell_that_cannot_be_made_is_an_error_and_no_child(
    cell: SandboxSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("palinurus.tools.sandbox.docker._PLACES", "/nowhere")
    with pytest.raises(OSError, match=r"docker|container"):
        prepare_launch(("/bin/true",), "/", {}, cell)


def test_a_kernel_that_refuses_is_an_error_and_no_child(room_of: Callable[..., Any], tmp_path: Path) -> None:
    room = room_of()
    proof = tmp_path / "ran"
    # a port that is none: the kernel does not take the rule
    cell = SandboxSpec("landlock", room.cell.read, room.cell.write, ((70_000, 70_000),))
    with pytest.raises(OSError):
        start_child(prepare_launch(("/usr/bin/touch", str(proof)), "/", {}, cell), **NO_HANDLES)
    assert not proof.exists()


def test_a_program_that_is_not_there_says_so(room: Any) -> None:
    launch = prepare_launch(("/usr/bin/no-such-program",), "/usr", {}, room.cell)
    with pytest.raises(FileNotFoundError):
        start_child(launch, **NO_HANDLES)


def test_without_a_cell_nothing_is_changed() -> None:
    launch = prepare_launch(("/bin/echo", "x"), "/", {"A": "b"}, SandboxSpec())
    assert (launch.argv, launch.cwd, launch.env) == (("/bin/echo", "x"), "/", {"A": "b"})
