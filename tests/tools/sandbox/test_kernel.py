"""System calls by number, and their errors."""

from __future__ import annotations

import errno
import os
import sys

import pytest

from palinurus.tools.sandbox import kernel

pytestmark = pytest.mark.skipif(kernel.detect_machine() is None, reason="a machine we have no numbers for")


def test_errors_are_those_of_os() -> None:
    with pytest.raises(FileNotFoundError):
        kernel.call_kernel(kernel.OPENAT2, 0, b"/nowhere-at-all", b"\x00" * 24, 24)
    with pytest.raises(OSError) as caught:
        kernel.call_prctl(99_999)
    assert caught.value.errno == errno.EINVAL


def test_numbers_are_as_wide_as_registers() -> None:
    """-1 as a handle must not become 4294967295."""
    with pytest.raises(OSError) as caught:
        kernel.call_kernel(kernel.OPENAT2, -1, b"x", b"\x00" * 24, 24)
    assert caught.value.errno == errno.EBADF


def test_both_machines_know_the_same_calls() -> None:
    first, *others = (set(machine.calls) for machine in kernel._MACHINES.values())
    assert all(first == other for other in others)


def test_repeated_calls_raise_too() -> None:
    with pytest.raises(OSError):
        kernel.prepare_call(kernel.LANDLOCK_ADD)(-1, 2, b"\x00" * 16, 0)


def test_another_system_has_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert kernel.detect_machine() is None
    assert os.sep == "/"
