"""Starting and stopping processes, and what /proc says they cost."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable

TICK = os.sysconf("SC_CLK_TCK")


def tree(pid: int) -> list[int]:
    """The process and its descendants."""
    out = [pid]
    for task in _listed(f"/proc/{pid}/task"):
        for child in _text(f"/proc/{pid}/task/{task}/children").split():
            out += tree(int(child))
    return out


def cpu(pid: int) -> float:
    """Seconds of processor time spent so far by a process tree (nanosecond counters where the kernel has them)."""
    total = 0.0
    for one in tree(pid):
        parts = [_text(f"/proc/{one}/task/{task}/schedstat").split() for task in _listed(f"/proc/{one}/task")]
        if parts and all(parts):
            total += sum(int(part[0]) for part in parts) / 1e9
        elif stat := _text(f"/proc/{one}/stat"):
            total += sum(int(x) for x in stat.rsplit(")", 1)[1].split()[11:13]) / TICK
    return total


def rss(pid: int) -> float:
    """Resident memory of a process tree in MB (10^6 bytes)."""
    total = 0
    for one in tree(pid):
        for line in _text(f"/proc/{one}/status").splitlines():
            if line.startswith("VmRSS:"):
                total += int(line.split()[1]) * 1024
    return total / 1e6


def pss(pid: int, row: str = "Pss") -> float:
    """Memory of a process tree in MB, what several share counted once."""
    total = 0
    for one in tree(pid):
        for line in _text(f"/proc/{one}/smaps_rollup").splitlines():
            if line.startswith(f"{row}:"):
                total += int(line.split()[1]) * 1024
    return total / 1e6


def private(pid: int) -> float:
    """Memory of a process tree in MB that is no file's: what it made itself."""
    return pss(pid, "Anonymous")


def quiet(measure: Callable[[int], float], pid: int, seconds: float = 1.0) -> float:
    """The least of a while: what is only started to be looked at (the sandbox, once) does not count."""
    end, least = time.monotonic() + seconds, measure(pid)
    while time.monotonic() < end:
        time.sleep(0.1)
        least = min(least, measure(pid))
    return least


def spawn(argv: list[str], env: dict[str, str], cwd: str, log: str) -> subprocess.Popen[bytes]:
    """Start in a session of its own; output goes to `log`."""
    with open(log, "ab") as handle:
        return subprocess.Popen(
            argv, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=handle, stderr=handle, start_new_session=True
        )


def stop(process: subprocess.Popen[bytes], wait: float = 15.0) -> None:
    """End a process that we started, and the group it leads."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(wait)
        except subprocess.TimeoutExpired:
            pass
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    process.wait()


def timed(argv: list[str], env: dict[str, str], cwd: str) -> tuple[float, float]:
    """(wall seconds, processor seconds) of a command. Raises SystemExit when it fails."""
    start = time.monotonic()
    process = subprocess.Popen(argv, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    wall = time.monotonic() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(argv)}: exit {process.returncode}")
    return wall, used.ru_utime + used.ru_stime


def free_port() -> int:
    """A port nobody listens on right now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _text(path: str) -> str:
    try:
        with open(path) as handle:
            return handle.read()
    except OSError:
        return ""


def _listed(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except OSError:
        return []
