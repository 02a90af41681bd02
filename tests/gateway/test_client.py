"""This machine's identity on disk."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from palinurus.errors import StateUnwritable
from palinurus.gateway.client import FILE, load_identity


def test_it_is_made_once(tmp_path: Path) -> None:
    made = load_identity(str(tmp_path))
    assert load_identity(str(tmp_path)) == made and os.listdir(tmp_path / "identity") == ["device.key"]
    assert os.stat(tmp_path / FILE).st_mode & 0o777 == 0o600


def test_a_disk_without_room_leaves_none_that_is_damaged(tmp_path: Path) -> None:
    """An empty file stayed, and each command said "is damaged" when there was room again."""
    code = f"from palinurus.gateway.client import load_identity; load_identity({str(tmp_path)!r})"
    done = subprocess.run(
        [sys.executable, "-c", f"import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); {code}"],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and "StateUnwritable" in done.stderr
    assert not (tmp_path / FILE).exists() and load_identity(str(tmp_path)).id


def test_one_that_was_cut_off_is_named(tmp_path: Path) -> None:
    (tmp_path / "identity").mkdir()
    (tmp_path / FILE).write_bytes(b"short")
    with pytest.raises(StateUnwritable, match="is damaged"):
        load_identity(str(tmp_path))
