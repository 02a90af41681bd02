"""The host's file and the sections of the config that judge commands."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from palinurus.config.load import load_config
from palinurus.config.sections import approvals
from palinurus.core.types.approval import CommandRule
from palinurus.errors import StateError


def settings(home: Path, **config: Any) -> dict[str, approvals.AgentExecRules]:
    home.mkdir(exist_ok=True)
    (home / "palinurus.json").write_text(json.dumps(config))
    return load_config(str(home), {}).settings.approvals


def test_nothing_said(tmp_path: Path) -> None:
    (rules,) = settings(tmp_path / "h").values()
    assert rules.exec.security is None and rules.exec.ask is None and rules.elevated and rules.allow_from == ()
    assert rules.exec.file == str(tmp_path / "h" / "exec-approvals.json")
    assert rules.exec.safe_bins == ("cut", "uniq", "head", "tail", "tr", "wc")


def test_words_of_the_config_and_of_one_agent(tmp_path: Path) -> None:
    found = settings(
        tmp_path / "h",
        tools={
            "exec": {"security": "allowlist", "ask": "on-miss", "safeBins": ["wc"], "safeBinTrustedDirs": ["/opt/bin"]},
            "elevated": {"enabled": True, "allowFrom": {"telegram": [5, "6"]}},
        },
        agents={
            "defaults": {"elevatedDefault": "ask"},
            "list": [
                {"id": "main"},
                {"id": "Work", "tools": {"exec": {"ask": "always"}, "elevated": {"enabled": False, "allowFrom": {}}}},
            ],
        },
    )
    main, work = found["main"], found["work"]
    assert (main.exec.security, main.exec.ask, work.exec.ask) == ("allowlist", "on-miss", "always")
    assert main.exec.safe_bins == ("wc",) and "/opt/bin" in main.exec.safe_dirs and main.exec.elevated == "ask"
    assert main.elevated and not work.elevated
    assert main.allow_from == ({"telegram": ("5", "6")},) and work.allow_from == ({"telegram": ("5", "6")}, {})


@pytest.mark.parametrize(
    ("mode", "security", "ask"),
    [
        ("deny", "deny", "off"),
        ("allowlist", "allowlist", "off"),
        ("ask", "allowlist", "on-miss"),
        ("full", "full", "off"),
    ],
)
def test_the_single_knob(tmp_path: Path, mode: str, security: str, ask: str) -> None:
    (rules,) = settings(tmp_path / "h", tools={"exec": {"mode": mode}}).values()
    assert (rules.exec.security, rules.exec.ask) == (security, ask)


def test_rules_are_added_once_used_and_removed_and_the_rest_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "h" / "exec-approvals.json"
    path = str(file)
    assert approvals.read_approvals(path).entries("main") == () and approvals.read_approvals("").rules("main") == ()
    rule = CommandRule("/usr/bin/ls", ("-l",))
    assert approvals.add_rules(path, "main", (rule, CommandRule("cat")), "test", 5) == 2
    assert approvals.add_rules(path, "main", (rule,), "test", 6) == 0
    raw = json.loads(file.read_text())
    raw["socket"] = {"path": "x"}
    raw["agents"]["main"]["allowlist"][0]["extra"] = 1
    file.write_text(json.dumps(raw))
    approvals.touch_rule(path, "main", rule, "ls -l", 7)
    raw = json.loads(file.read_text())
    first = raw["agents"]["main"]["allowlist"][0]
    assert raw["version"] == 1 and raw["socket"] == {"path": "x"} and first["extra"] == 1
    assert first["lastUsedAt"] == 7 and first["lastUsedCommand"] == "ls -l" and first["source"] == "test"
    assert (
        approvals.read_approvals(path).rules("main") == (rule, CommandRule("cat"))
        and approvals.read_approvals(path).rules("other") == ()
    )
    assert (
        approvals.remove_rules(path, "main", first["id"][:8]) == 1 and approvals.remove_rules(path, "main", "cat") == 1
    )
    assert approvals.remove_rules(path, "main", "") == 0 and approvals.read_approvals(path).entries("main") == ()
    assert file.stat().st_mode & 0o077 == 0


def test_entries_of_all_agents_and_defaults(tmp_path: Path) -> None:
    file = tmp_path / "f.json"
    agents = {"*": {"allowlist": [{"pattern": "ls"}]}, "main": {"ask": "always", "allowlist": [{"pattern": "cat"}]}}
    file.write_text(json.dumps({"version": 1, "defaults": {"security": "allowlist", "ask": "off"}, "agents": agents}))
    host = approvals.read_approvals(str(file))
    assert host.rules("main") == (CommandRule("ls"), CommandRule("cat")) and host.rules("x") == (CommandRule("ls"),)
    assert host.words("main") == {"security": "allowlist", "ask": "always"} and host.words("x")["ask"] == "off"


@pytest.mark.parametrize(
    "entry",
    [
        {"pattern": ""},
        {},
        {"pattern": "/usr/../bin/x"},
        {"pattern": "/usr/**/x"},
        {"pattern": "bin/x"},
        {"pattern": "ls", "argPattern": "^-l$"},
        {"pattern": "ls", "argv": "-l"},
        {"pattern": "ls", "argv": [1]},
    ],
)
def test_an_entry_that_is_not_understood_is_never_used(tmp_path: Path, entry: dict[str, Any]) -> None:
    file = tmp_path / "f.json"
    file.write_text(json.dumps({"agents": {"main": {"allowlist": [entry, "junk", 3]}}}))
    host = approvals.read_approvals(str(file))
    assert host.rules("main") == () and host.entries("main")[0].problem


@pytest.mark.parametrize("text", ["{", "[]", '{"version": 2}', "\x00", "nul"])
def test_a_broken_file_denies_and_is_not_overwritten(tmp_path: Path, text: str) -> None:
    file = tmp_path / "f.json"
    file.write_text(text)
    host = approvals.read_approvals(str(file))
    assert host.problem and host.words("main") == {"security": "deny"} and host.rules("main") == ()
    with pytest.raises(StateError):
        approvals.add_rules(str(file), "main", (CommandRule("ls"),), "test", 0)
    assert file.read_text() == text


def test_a_folder_in_its_place_denies(tmp_path: Path) -> None:
    (tmp_path / "f.json").mkdir()
    assert approvals.read_approvals(str(tmp_path / "f.json")).words("main") == {"security": "deny"}


def test_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "f.json")
    names = [f"tool{n}" for n in range(12)]
    threads = [
        threading.Thread(target=approvals.add_rules, args=(path, "main", (CommandRule(n),), "t", 0)) for n in names
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {rule.pattern for rule in approvals.read_approvals(path).rules("main")} == set(names)
