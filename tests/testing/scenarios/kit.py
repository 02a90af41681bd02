"""Scenarios as files, and what `pal test` makes of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from palinurus.testing.scenarios.command import main
from palinurus.testing.scenarios.subject import AgentOptions, AgentThread, AgentUnderTest


def put(folder: Path, **files: str) -> Path:
    """Files by name; `_yaml` and `_py` at the end of a name are its ending."""
    for name, text in files.items():
        stem, _, ending = name.rpartition("_")
        (folder / f"{stem}.{ending}").write_text(text, encoding="utf-8")
    return folder


def play(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, list[dict[str, Any]]]:
    """Exit code, and what --json says."""
    code = main([*argv, "--json"])
    return code, json.loads(capsys.readouterr().out)


@pytest.fixture
def threads() -> Iterator[AgentThread]:
    made = AgentThread()
    yield made
    made.close()


def agent(threads: AgentThread, **options: Any) -> AgentUnderTest:
    return AgentUnderTest(AgentOptions(**options), threads)
