"""A run that calls tools, and what is kept of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from palinurus.core.types.changes import ChangeRules, RunChanges
from palinurus.tools.changes.journal import ChangeJournal, get_change_journal
from palinurus.tools.changes.undo import FileRestorer


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def ctx(ctx: Any, home: Path) -> Any:
    return ctx.set(protected=(str(home),))


@pytest.fixture
def journal(home: Path) -> ChangeJournal:
    return get_change_journal(str(home))


@pytest.fixture
def kept(journal: ChangeJournal) -> Callable[..., RunChanges]:
    """What a run changed."""

    def load(item: str = "item-1") -> RunChanges:
        run = journal.archive.load(item)
        assert run is not None
        return run

    return load


@pytest.fixture
def restorer(journal: ChangeJournal) -> FileRestorer:
    return FileRestorer(journal.archive, ChangeRules())
