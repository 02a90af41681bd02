"""Given up by one thread, kept by the others."""

from __future__ import annotations

import threading

import pytest

from palinurus.tools.sandbox import confine, syscalls

pytestmark = pytest.mark.skipif(syscalls.detect_machine() is None, reason="a machine we have no numbers for")


def status() -> dict[str, str]:
    with open("/proc/thread-self/status", encoding="ascii", errors="replace") as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


def test_of_one_thread_only() -> None:
    seen: list[dict[str, str]] = []

    def give_up() -> None:
        confine.forbid_new_privileges()
        confine.drop_capabilities()
        confine.drop_capabilities()  # a second time is no error
        seen.append(status())

    before = status()
    thread = threading.Thread(target=give_up)
    thread.start()
    thread.join()
    kept = sum(1 << bit for bit in confine.KEPT_CAPABILITIES.values())
    assert seen[0]["NoNewPrivs"] == "1" and int(seen[0]["CapEff"], 16) & ~kept == 0
    after = status()
    assert (after["NoNewPrivs"], after["CapEff"]) == (before["NoNewPrivs"], before["CapEff"])
