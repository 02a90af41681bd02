"""Who may start whom."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from palinurus.config.load import load_config
from palinurus.config.settings import Settings
from palinurus.core.types.keys import SessionKey
from palinurus.services.subagents import spawn

MAIN, WORK = SessionKey("main", "main"), SessionKey("work", "subagent:1")


def settings(home: Path, own: dict[str, Any] | None = None, **defaults: Any) -> Settings:
    listed = [{"id": "main", **(own or {})}, {"id": "work"}]
    (home / "palinurus.json").write_text(json.dumps({"agents": {"defaults": defaults, "list": listed}}))
    return load_config(str(home), {}).settings


@pytest.mark.seed(353, 354)
def test_depth(tmp_path: Path) -> None:
    plain = settings(tmp_path)
    assert spawn.check_depth(plain, MAIN, 0) == "" and "maxSpawnDepth is 1" in spawn.check_depth(plain, MAIN, 1)
    deep = settings(tmp_path, subagents={"maxSpawnDepth": 3})
    assert [bool(spawn.check_depth(deep, MAIN, n)) for n in range(5)] == [False, False, False, True, True]


@pytest.mark.seed(355)
def test_number(tmp_path: Path) -> None:
    plain = settings(tmp_path)
    assert spawn.check_count(plain, MAIN, 4) == "" and "is 5" in spawn.check_count(plain, MAIN, 5)
    one = settings(tmp_path, {"subagents": {"maxChildrenPerAgent": 1}})
    assert spawn.check_count(one, MAIN, 0) == "" and spawn.check_count(one, MAIN, 1)
    assert spawn.check_count(one, WORK, 4) == ""


@pytest.mark.seed(356)
def test_agents(tmp_path: Path) -> None:
    plain = settings(tmp_path)
    assert spawn.check_agent(plain, MAIN, "") == spawn.check_agent(plain, MAIN, "main") == ""
    assert "allowAgents" in spawn.check_agent(plain, MAIN, "work")
    anyone = settings(tmp_path, {"subagents": {"allowAgents": ["*"], "requireAgentId": True}})
    assert spawn.check_agent(anyone, MAIN, "work") == "" and "no agent" in spawn.check_agent(anyone, MAIN, "x")
    assert "requireAgentId" in spawn.check_agent(anyone, MAIN, "")


def test_nobody_gets_out_of_a_sandbox_by_delegation(tmp_path: Path) -> None:
    boxed = settings(tmp_path, {"sandbox": {"mode": "all"}})
    assert "sandboxed" in spawn.check_sandbox(boxed, MAIN, WORK, False)
    assert spawn.check_sandbox(boxed, MAIN, SessionKey("main", "subagent:1"), True) == ""
    free = settings(tmp_path)
    assert spawn.check_sandbox(free, MAIN, WORK, False) == "" and "require" in spawn.check_sandbox(
        free, MAIN, WORK, True
    )
