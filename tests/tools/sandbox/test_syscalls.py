"""System calls by number, and their errors."""

from __future__ import annotations

import errno
import os
import sys

import pytest

from palinurus.beneath import OPENAT2
from palinurus.tools.sandbox import syscalls

pytestmark = pytest.mark.skipif(syscalls.detect_machine() is None, reason="a machine we have no numbers for")


def test_errors_are_those_of_os() -> None:
    with pytest.raises(FileNotFoundError):
        syscalls.call_kernel(OPENAT2, 0, b"/nowhere-at-all", b"\x00" * 24, 24)
    with pytest.raises(OSError) as caught:
        syscalls.call_prctl(99_999)
    assert caught.value.errno == errno.EINVAL


def test_numbers_are_as_wide_as_registers() -> None:
    """-1 as a handle must not become 4294967295."""
    with pytest.raises(OSError) as caught:
        syscalls.call_kernel(OPENAT2, -1, b"x", b"\x00" * 24, 24)
    assert caught.value.errno == errno.EBADF


def test_both_machines_know_the_same_calls() -> None:
    first, *others = (set(machine.calls) for machine in syscalls._MACHINES.values())
    only_old = {"open", "creat", "chmod", "mknod"}  # newer machines have the forms that end in "at" alone
    assert all(first - only_old == other - only_old for other in others)


def test_repeated_calls_raise_too() -> None:
    with pytest.raises(OSError):
        syscalls.prepare_call(syscalls.LANDLOCK_ADD)(-1, 2, b"\x00" * 16, 0)


def test_another_system_has_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert syscalls.detect_machine() is None
    assert os.sep == "/"
