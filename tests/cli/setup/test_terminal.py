"""`pal setup` and `pal doctor` at a real terminal (a pty)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.test_chat import Glass, left


@pytest.fixture
def setup(home: Path) -> Iterator[Glass]:
    glass = Glass(home, command=("setup",))
    yield glass
    glass.process.kill()
    glass.process.wait()


def test_three_times_enter_ends_in_a_chat_that_works(setup: Glass, home: Path) -> None:
    setup.until("1. Which model should answer?")
    setup.until("model: ")
    setup.type("\n")
    setup.until("2. Where should the agent keep its files?")
    setup.until("]: ")
    setup.type("\n")
    setup.until("ready: ")
    setup.until("3. Begin? [Y/n]: ")
    setup.type("\n")
    setup.until("\x1b[?1049h")
    setup.until("builtin/demo")
    setup.type("list files\r")
    setup.until("AGENTS.md")
    setup.process.terminate()
    setup.until("\x1b[?1049l")
    assert left(setup) == 0
    assert (home / "workspace" / "AGENTS.md").exists()


def test_no_is_an_answer_too(setup: Glass, tmp_path: Path, home: Path) -> None:
    setup.until("model: ")
    setup.type("\x04")
    setup.until("2. Where")
    setup.type(f"{tmp_path / 'mine'}\n")
    setup.until("3. Begin?")
    setup.type("n\n")
    assert left(setup) == 0
    assert (tmp_path / "mine" / "AGENTS.md").exists() and not (home / "workspace").exists()


def test_the_doctor_offers_what_it_can_repair(demo: Path) -> None:
    (demo / "palinurus.json").chmod(0o644)
    glass = Glass(demo, command=("doctor",))
    glass.until("2 of these can be repaired here and now. Do it? [y/N]: ")
    glass.type("y\n")
    assert left(glass) == 0
    assert (demo / "palinurus.json").stat().st_mode & 0o777 == 0o600
