"""Who may see and start whom, as the config says it."""

from __future__ import annotations

import json
from typing import Any

from palinurus.config.load import judge_config
from palinurus.config.settings import ReachSettings


def read(**raw: Any) -> ReachSettings:
    settings = judge_config(json.dumps(raw), "f", "/h", {"HOME": "/h"}).settings
    assert settings is not None
    return settings.reach


def test_defaults() -> None:
    assert read() == ReachSettings("tree", False, (), {"main": ()}, {"main": "spawned"})


def test_all_of_it() -> None:
    found = read(
        tools={"sessions": {"visibility": "all"}, "agentToAgent": {"enabled": True, "allow": [" Main ", "*"]}},
        agents={
            "defaults": {"subagents": {"allowAgents": ["A"]}, "sandbox": {"sessionToolsVisibility": "all"}},
            "list": [{"id": "main"}, {"id": "work", "subagents": {"allowAgents": []}}],
            "entries": {"Third": {"sandbox": {"sessionToolsVisibility": "spawned"}}},
        },
    )
    assert (found.visibility, found.across, found.allow) == ("all", True, ("main", "*"))
    assert found.spawn == {"main": ("a",), "work": (), "third": ("a",)}
    assert found.boxed == {"main": "all", "work": "all", "third": "spawned"}
