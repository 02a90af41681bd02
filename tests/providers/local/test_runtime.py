"""The child and its parent: neither outlives the other's wish."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from palinurus.providers.local.runtime import LocalRuntime, RuntimeDied

ENGINE = (sys.executable, str(Path(__file__).parent / "engine.py"))
BODY = {"messages": [{"role": "user", "content": "deaf"}]}

PARENT = """
import asyncio, sys
from palinurus.providers.local.runtime import LocalRuntime
async def main():
    runtime = await LocalRuntime.start(sys.argv[1], 8, sys.argv[2:])
    await runtime.ready()
    chunks = runtime.ask({"messages": [{"role": "user", "content": "deaf"}]})
    await anext(chunks)
    print(runtime.pid, flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""


@pytest.fixture
def weights(tmp_path: Path) -> str:
    (tmp_path / "m.gguf").write_text("weights")
    return str(tmp_path / "m.gguf")


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    status = Path(f"/proc/{pid}/stat")
    return status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z"


def test_the_child_dies_with_its_parent(weights: str) -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT, weights, *ENGINE], stdout=subprocess.PIPE)
    try:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert not gone(child)
        os.kill(parent.pid, signal.SIGKILL)
    finally:
        parent.kill()
        parent.wait()
        if parent.stdout is not None:
            parent.stdout.close()
    for _ in range(500):
        if gone(child):
            return
        threading.Event().wait(0.02)
    raise AssertionError("the child is still there")


async def test_a_deaf_child_is_ended_when_its_time_is_up(weights: str) -> None:
    runtime = await LocalRuntime.start(weights, 8, ENGINE)
    await runtime.ready()
    chunks = runtime.ask(BODY)
    await anext(chunks)
    await chunks.aclose()  # type: ignore[attr-defined]
    await runtime.settle(0.05)
    assert not runtime.alive


async def test_what_cannot_be_started(weights: str) -> None:
    with pytest.raises(RuntimeDied, match="cannot be started"):
        await LocalRuntime.start(weights, 8, ("/nonexistent/python",))


async def test_a_child_that_ends_at_once(weights: str) -> None:
    runtime = await LocalRuntime.start(weights, 8, (sys.executable, "-c", "import sys; sys.exit('boom')"))
    with pytest.raises(RuntimeDied, match="code 1: boom"):
        await asyncio.wait_for(runtime.ready(), 60)


async def test_its_folder_is_private_and_goes_away(
    weights: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    runtime = await LocalRuntime.start(weights, 8, ENGINE)
    (folder,) = place.iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    await runtime.ready()
    assert list(place.iterdir()) == []
    await runtime.close()
    runtime = await LocalRuntime.start(weights, 8, ENGINE)
    await runtime.close()
    assert list(place.iterdir()) == []
