"""The child process itself; most of it is proved through exec."""

from __future__ import annotations

import os

import pytest

from descriptors import count_open
from palinurus.tools.commands import child, record


async def test_output_code_and_handles() -> None:
    await child.run_child(child.ChildSpec(("/bin/true",), "/", {}), lambda data: None, 10)  # now a keeper is ready
    before = count_open() if os.path.isdir("/proc/self/fd") else 0
    got = bytearray()
    ended = await child.run_child(child.ChildSpec(("/bin/sh", "-c", "printf abc; exit 4"), "/", {}), got.extend, 10)
    assert (bytes(got), ended) == (b"abc", child.ChildExit(4, False, False))
    assert before in (0, count_open())


async def test_what_cannot_be_started() -> None:
    before = count_open() if os.path.isdir("/proc/self/fd") else 0
    for spec in (child.ChildSpec(("/no/such",), "/", {}), child.ChildSpec(("/bin/sh",), "/no/such", {})):
        with pytest.raises(OSError):
            await child.run_child(spec, lambda data: None, 10)
    assert before in (0, count_open())


async def test_each_child_has_a_session_and_a_mark_of_its_own() -> None:
    got = bytearray()
    spec = child.ChildSpec(
        ("/bin/sh", "-c", f"echo $$ ${record.MARK_VARIABLE}; ps -o sid= -p $$ 2>/dev/null || echo $$"), "/", {}
    )
    await child.run_child(spec, got.extend, 10)
    pid, mark, session = got.split()
    assert pid == session and len(mark) == 24
