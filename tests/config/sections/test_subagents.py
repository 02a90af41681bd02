"""agents.*.subagents: whose word counts, and the defaults."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from palinurus.config.load import load_config
from palinurus.config.sections.context import SubagentSettings


def read(home: Path, agents: dict[str, Any]) -> dict[str, SubagentSettings]:
    (home / "palinurus.json").write_text(json.dumps({"agents": agents}))
    return load_config(str(home), {}).settings.subagents


@pytest.mark.seed(355)
def test_the_defaults(tmp_path: Path) -> None:
    assert read(tmp_path, {}) == {"main": SubagentSettings(5, "", "", 0.0, 3600.0, False)}


@pytest.mark.seed(358)
def test_an_agents_own_words_go_before_the_shared_ones(tmp_path: Path) -> None:
    shared = {"maxChildrenPerAgent": 3, "model": {"primary": "a/b"}, "runTimeoutSeconds": 60, "requireAgentId": True}
    own = {"model": "c/d", "runTimeoutSeconds": 0, "requireAgentId": False, "archiveAfterMinutes": 0, "thinking": "low"}
    found = read(
        tmp_path, {"defaults": {"subagents": shared}, "list": [{"id": "main"}, {"id": "work", "subagents": own}]}
    )
    assert found["main"] == SubagentSettings(3, "a/b", "", 60.0, 3600.0, True)
    assert found["work"] == SubagentSettings(3, "c/d", "low", 0.0, 0.0, False)
