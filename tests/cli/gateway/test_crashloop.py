"""Crash loops: when the proven config is used, and when not."""

from __future__ import annotations

import json
from pathlib import Path

from palinurus.cli.gateway import crashloop
from palinurus.config.load import load_config


def write(home: Path, main: str) -> None:
    (home / "palinurus.json").write_text(json.dumps({"session": {"mainKey": main}}))


def test_bad_starts_lead_back_to_the_config_that_ran_well(tmp_path: Path) -> None:
    home = str(tmp_path)
    write(tmp_path, "good")
    crashloop.keep_proven_config(load_config(home, {}))
    write(tmp_path, "bad")
    used = []
    for at in range(5):
        used.append(crashloop.choose_config(load_config(home, {}), crashloop.count_start(home, 1000 + at), {}))
    assert [u.settings.session.main_key for u in used] == ["bad", "bad", "bad", "good", "good"]
    assert used[3].fallback and not used[0].fallback
    assert crashloop.count_start(home, 1000 + crashloop.WINDOW_MS * 2) == 1  # long ago is forgotten
    crashloop.forget_starts(home)
    assert crashloop.count_start(home, 2000) == 1


def test_without_a_change_or_a_copy_nothing_is_replaced(tmp_path: Path) -> None:
    home = str(tmp_path)
    write(tmp_path, "only")
    assert crashloop.choose_config(load_config(home, {}), 9, {}).fallback == ""
    crashloop.keep_proven_config(load_config(home, {}))
    assert crashloop.choose_config(load_config(home, {}), 9, {}).fallback == ""
    (tmp_path / "gateway.starts").write_bytes(b"{ no list")
    assert crashloop.count_start(home, 5) == 1
