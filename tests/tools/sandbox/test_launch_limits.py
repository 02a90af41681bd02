"""Limits hold from the command's first moment on, and for all it starts."""

from __future__ import annotations

import json
import resource
import sys
from typing import Any

import pytest

from palinurus.core.types.sandbox import ProcessLimits, SandboxSpec
from palinurus.tools.sandbox.children import make_plan
from palinurus.tools.sandbox.keeper import list_limits

LOOK = (
    f"{sys.executable} -I -S -c 'import json, resource as r; print(json.dumps({{n: r.getrlimit(getattr(r, "
    f'"RLIMIT_" + n))[1] for n in ("NOFILE", "FSIZE", "DATA", "NPROC", "CPU", "CORE")}}))\''
)
LIMITS = ProcessLimits(files=100, file_bytes=1 << 20, memory_bytes=1 << 32, processes=5000, cpu_seconds=60)


def test_each_limit_and_for_all_it_starts(room: Any) -> None:
    for command in (LOOK, f'sh -c "{LOOK.replace(chr(34), chr(92) + chr(34))}"'):
        found = json.loads(room.run(command, limits=LIMITS).out)
        assert found.pop("NPROC") >= 5000
        assert found == {"NOFILE": 100, "FSIZE": 1 << 20, "DATA": 1 << 32, "CPU": 60, "CORE": 0}


def test_without_a_word_in_the_config_there_are_limits(room: Any) -> None:
    """A command may not take all of the machine: memory, processes, the size of a file."""
    found = json.loads(room.run(LOOK).out)
    assert found["DATA"] > 0 and 0 < found["FSIZE"] <= 16 << 30
    assert 1024 <= found["NPROC"] < 1 << 20


def test_processes_of_others_are_allowed_for() -> None:
    """They are counted per user, so that a bare number would forbid the first fork on a busy machine."""
    limits = make_plan_limits(processes=10)
    shared, own = (dict(list_limits(limits, own_users=own))[resource.RLIMIT_NPROC] for own in (False, True))
    assert own == 10 and shared > 10
    assert resource.RLIMIT_NPROC not in dict(list_limits(make_plan_limits(processes=0), own_users=False))


def make_plan_limits(**changes: int) -> Any:
    return make_plan(SandboxSpec(limits=ProcessLimits(**changes))).limits


@pytest.mark.parametrize("size", [1, 64])
def test_shared_memory_is_the_commands_own_and_bounded(room_of: Any, size: int) -> None:
    room = room_of("namespaces", limits={"shmMb": size})
    assert room.run("df -m /dev/shm | tail -1 | awk '{print $2}'").out.strip() == str(size)
    assert room.run("echo x > /dev/shm/mine && ls /dev/shm").out.split() == ["mine"]
    assert room.run("ls /dev/shm").out == ""
