"""`plugins` and `hooks.internal` resolved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from palinurus.config.load import LoadedConfig, load_config


def loaded(home: Path, **config: Any) -> LoadedConfig:
    (home / "palinurus.json").write_text(json.dumps(config))
    return load_config(str(home), {"KEY": "sekrit", "HOME": str(home)})


def test_without_a_section_nobody_is_wanted(tmp_path: Path) -> None:
    here = loaded(tmp_path).settings
    assert here.plugins.enabled_ids == () and here.scripts.on


def test_entries(tmp_path: Path) -> None:
    hooks = {
        "allowPromptInjection": False,
        "allowConversationAccess": True,
        "timeoutMs": 1500,
        "timeouts": {"a": 2, "b": 0},
    }
    entry = {"config": {"list": [{"key": {"source": "env", "id": "KEY"}}], "same": {"source": "env"}}, "hooks": hooks}
    section = {"entries": {"one": entry, "two": {"enabled": False}}, "load": {"paths": ["more", "~/far", 3]}}
    here = loaded(tmp_path, plugins=section).settings.plugins
    one = here.entries["one"]
    assert one.config == {"list": [{"key": "sekrit"}], "same": {"source": "env"}} and "sekrit" not in repr(here)
    assert (one.prompt, one.conversation, one.deadline, one.deadlines) == (False, True, 1.5, {"a": 0.002})
    assert here.enabled_ids == ("one",) and here.paths == tuple(str(tmp_path / name) for name in ("more", "far", "3"))


def test_a_secret_that_is_not_there_is_told(tmp_path: Path) -> None:
    entry = {"config": {"key": {"source": "env", "id": "KEYS"}}}
    (problem,) = loaded(tmp_path, plugins={"entries": {"one": entry}}).problems
    assert (
        problem.path == "plugins.entries.one.config.key" and "did you mean 'KEY'" in problem.hint and not problem.fatal
    )


@pytest.mark.parametrize(
    ("section", "why"),
    [
        ({"enabled": False, "entries": {"x": {}}}, "plugins.enabled is false"),
        ({"deny": ["x"], "allow": ["x"]}, "plugins.deny names it"),
        ({"entries": {"x": {"enabled": False}}}, "plugins.entries.x.enabled is false"),
        ({"allow": ["y"], "entries": {"x": {}}}, "plugins.allow does not name it"),
        ({}, "not enabled: `pal plugins enable x`"),
        ({"entries": {"x": {}}}, ""),
    ],
)
def test_why_one_is_not_used(tmp_path: Path, section: dict[str, Any], why: str) -> None:
    assert loaded(tmp_path, plugins=section).settings.plugins.refusal("x") == why


def test_scripts(tmp_path: Path) -> None:
    internal = {"enabled": False, "load": {"extraDirs": ["h"]}, "entries": {"a": {}, "b": {"enabled": False}}}
    here = loaded(tmp_path, hooks={"internal": internal}).settings.scripts
    assert (here.on, here.folders, here.entries) == (False, (str(tmp_path / "h"),), {"a": True, "b": False})
