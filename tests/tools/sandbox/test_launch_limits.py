"""Limits hold from the command's first moment on, and for all it starts."""

from __future__ import annotations

import json
import subprocess
import sys

from palinurus.core.types.sandbox import ProcessLimits
from palinurus.tools.sandbox.launch import wrap_limits

LOOK = (
    "import json, resource as r; print(json.dumps({n: r.getrlimit(getattr(r, 'RLIMIT_' + n))[1] "
    "for n in ('NOFILE', 'FSIZE', 'AS', 'NPROC', 'CPU', 'CORE')}))"
)


def seen(limits: ProcessLimits, *before: str) -> dict[str, int]:
    line = wrap_limits((*before, sys.executable, "-I", "-S", "-c", LOOK), limits)
    found: dict[str, int] = json.loads(subprocess.run(line, capture_output=True, check=True).stdout)
    return found


def test_each_limit() -> None:
    limits = ProcessLimits(files=100, file_bytes=1 << 20, memory_bytes=1 << 32, processes=5000, cpu_seconds=60)
    expected = {"NOFILE": 100, "FSIZE": 1 << 20, "AS": 1 << 32, "NPROC": 5000, "CPU": 60, "CORE": 0}
    assert seen(limits) == expected
    assert seen(limits, "/bin/sh", "-c", 'true; "$@"', "sh") == expected  # inherited


def test_never_more_than_there_was() -> None:
    inner = wrap_limits((sys.executable, "-I", "-S", "-c", LOOK), ProcessLimits(files=100))
    assert seen(ProcessLimits(files=100))["NOFILE"] == 100
    outer = subprocess.run(wrap_limits(inner, ProcessLimits(files=50)), capture_output=True, check=True)
    assert json.loads(outer.stdout)["NOFILE"] == 50


def test_the_command_line_is_not_read_by_the_shell() -> None:
    words = ["/bin/echo", "$HOME", "`id`", "a  b", "*", "'", ""]
    out = subprocess.run(
        wrap_limits(words, ProcessLimits()), capture_output=True, check=True, env={"HOME": "/x"}
    ).stdout
    assert out.decode() == "$HOME `id` a  b * ' \n"
