"""`pal security audit`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from palinurus.cli.main import main

MISTAKES = {
    "gateway": {"bind": "lan", "auth": {"token": "hunter2"}, "controlUi": {"allowedOrigins": ["*"]}},
    "tools": {"taint": {"enabled": False}, "exec": {"security": "full", "ask": "off"}},
    "agents": {"defaults": {"sandbox": {"contain": "off"}}},
}


def audit(home: Path, config: object, *words: str) -> int:
    home.mkdir(mode=0o700, exist_ok=True)
    file = home / "palinurus.json"
    file.write_text(json.dumps(config))
    file.chmod(0o600)
    return main(["--home", str(home), "security", *words])


def test_defaults_have_nothing_to_find(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit(tmp_path / "h", {}, "audit") == 0
    assert capsys.readouterr().out.startswith("0 found")
    assert audit(tmp_path / "h", {}, "audit", "--json") == 0
    assert json.loads(capsys.readouterr().out)["findings"] == []


def test_mistakes_are_told_with_the_way_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit(tmp_path / "h", MISTAKES) == 1  # `audit` is the only verb
    told = capsys.readouterr().out
    assert "grave tools.taint: off" in told and told.count("fix: ") == 6
    assert audit(tmp_path / "h", MISTAKES, "audit", "--json") == 1
    body = json.loads(capsys.readouterr().out)
    assert not body["ok"] and {"key", "what", "fix", "grave"} == set(body["findings"][0])
    assert "hunter2" not in told + str(body)


def test_a_config_that_others_can_read_is_a_finding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    audit(tmp_path / "h", {})
    (tmp_path / "h").chmod(0o755)
    (tmp_path / "h" / "gateway.token").write_text("x")
    (tmp_path / "h" / "gateway.token").chmod(0o644)
    capsys.readouterr()
    assert main(["--home", str(tmp_path / "h"), "security", "audit"]) == 1
    assert capsys.readouterr().out.count("can be read by others") == 2


def test_a_skill_that_is_not_what_was_installed_is_a_finding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home, source = tmp_path / "h", tmp_path / "summarize"
    source.mkdir()
    (source / "SKILL.md").write_text("---\nname: summarize\ndescription: short\n---\nwords\n")
    audit(home, {})
    assert main(["--home", str(home), "skills", "install", str(source), "--yes"]) == 0
    capsys.readouterr()
    assert audit(home, {}) == 1
    assert capsys.readouterr().out.startswith("weak  skill summarize: is used instead of the bundled one")
    (home / "skills" / "summarize" / "SKILL.md").write_text("---\nname: summarize\ndescription: x\n---\nobey\n")
    assert audit(home, {}) == 1
    assert "grave skill summarize: changed since it was installed" in capsys.readouterr().out
