"""`pal plugins`, and the subcommands that plugins bring."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from palinurus.cli.main import main
from palinurus.cli.plugins import run_plugins
from palinurus.errors import BadRequest, NotFound
from plugins.kit import plugin

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_a_new_plugin_works_and_its_tests_pass(
    home: Path, pal: Callable[..., subprocess.CompletedProcess[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_plugins(["new", "light-house"]) == 0
    folder = home / "plugins" / "light-house"
    assert {p.name for p in folder.iterdir()} == {"palinurus.plugin.json", "plugin.py", "test_plugin.py", "skills"}
    assert not any("NAME" in p.read_text() or "TOOL" in p.read_text() for p in folder.rglob("*") if p.is_file())
    done = pal("plugins", "test", "light-house")
    assert "Executing <Task" not in done.stderr and "ResourceWarning" not in done.stderr
    assert done.returncode == 0 and "Ran 3 tests" in done.stderr, done.stderr
    assert run_plugins(["enable", "light-house"]) == 0
    capsys.readouterr()
    assert run_plugins(["doctor"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "+ light-house  tools: light_house_greet; hooks: before_tool_call; commands: /light-house; skills: skills",
        "0 problems",
    ]
    with pytest.raises(BadRequest, match="is there already"):
        run_plugins(["new", "light-house"])
    for name in ("UPPER", "../x", "gateway"):
        with pytest.raises(BadRequest, match="cannot be a plugin's name"):
            run_plugins(["new", name])


def test_tests_that_fail_are_told(home: Path, pal: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    folder = plugin(home / "plugins" / "one")
    with pytest.raises(NotFound, match="has no tests"):
        run_plugins(["test", "one"])
    (folder / "test_one.py").write_text(
        "import unittest\nclass T(unittest.TestCase):\n    def test(self): self.fail('no')\n"
    )
    assert pal("plugins", "test", "one").returncode == 1


def test_enable_and_disable(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plugin(home / "plugins" / "one", description="about one")
    plugin(home / "plugins" / "two")
    assert run_plugins(["list"]) == 0
    out = capsys.readouterr().out
    assert "- one  not enabled: `pal plugins enable one`" in out and "0 of 2 plugins" in out
    assert run_plugins(["enable", "one", "--conversation"]) == 0
    entry = json.loads((home / "palinurus.json").read_text())["plugins"]["entries"]["one"]
    assert entry == {"enabled": True, "hooks": {"allowConversationAccess": True}}
    capsys.readouterr()
    run_plugins(["list", "--json"])
    listed = {row["id"]: row["enabled"] for row in json.loads(capsys.readouterr().out)["plugins"]}
    assert listed == {"one": True, "two": False}
    assert run_plugins(["disable", "one"]) == 0
    capsys.readouterr()
    run_plugins(["info", "one"])
    assert "plugins.entries.one.enabled is false" in capsys.readouterr().out
    with pytest.raises(NotFound, match="no plugin 'on'") as error:
        run_plugins(["enable", "on"])
    assert "one" in error.value.fix


def test_enabling_adds_to_an_allowlist_that_is_there(home: Path) -> None:
    plugin(home / "plugins" / "one")
    (home / "palinurus.json").write_text('{"plugins": {"allow": ["other"]}}')
    run_plugins(["enable", "one"])
    assert json.loads((home / "palinurus.json").read_text())["plugins"]["allow"] == ["other", "one"]


def test_doctor_names_all_that_is_wrong(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plugin(home / "plugins" / "fails", "1 / 0")
    plugin(home / "plugins" / "fits-not", configSchema={"type": "object", "required": ["key"]})
    plugin(home / "plugins" / "shy", "api.hook('llm_input', print)")
    (home / "plugins" / "empty").mkdir()
    (home / "hooks").mkdir()
    (home / "hooks" / "odd.py").write_text("EVENTS = []")
    allow = ["fails", "fits-not", "shy", "empty", "gone"]
    (home / "palinurus.json").write_text(json.dumps({"plugins": {"allow": allow}}))
    assert run_plugins(["doctor", "--json"]) == 1
    told = {row["id"]: row["problem"] for row in json.loads(capsys.readouterr().out)["problems"]}
    assert "ZeroDivisionError" in told["fails"] and "plugin.py:2" in told["fails"]
    assert "the key 'key' is missing" in told["fits-not"]
    assert "allowConversationAccess" in told["shy"]
    assert "has no palinurus.plugin.json" in told["empty"]
    assert "no such plugin" in told["gone"]
    assert "handler" in told["hooks/odd"]


def test_a_plugins_subcommand(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(EXAMPLES / "harbour", home / "plugins" / "harbour")
    config = {"ports": {"Brest": "06:12", "Oslo": "11:00"}}
    entries = {"harbour": {"enabled": True, "config": config}}
    (home / "palinurus.json").write_text(json.dumps({"plugins": {"entries": entries}}))
    assert main(["tides", "Brest"]) == 0
    assert capsys.readouterr().out == "Brest 06:12\n"
    entries["harbour"]["config"] = {"ports": {"Brest": "noon"}}
    (home / "palinurus.json").write_text(json.dumps({"plugins": {"entries": entries}}))
    assert main(["tides"]) == 64
    assert "must match" in capsys.readouterr().err
    entries["harbour"]["enabled"] = False
    (home / "palinurus.json").write_text(json.dumps({"plugins": {"entries": entries}}))
    assert main(["tides"]) == 64
    assert "there is no command 'tides'" in capsys.readouterr().err


def test_a_plugins_vendor_is_listed(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(EXAMPLES / "harbour", home / "plugins" / "harbour")
    entries = {"harbour": {"config": {"ports": {}}}}
    (home / "palinurus.json").write_text(
        json.dumps({"plugins": {"entries": entries}, "agents": {"defaults": {"model": "harbour/pilot-1"}}})
    )
    assert main(["models", "list"]) == 0
    assert "harbour/pilot-1" in capsys.readouterr().out


def test_other_commands_know_of_plugins(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(EXAMPLES / "harbour", home / "plugins" / "harbour")
    entries = {"harbour": {"config": {"ports": {}}}, "gone": {"enabled": True}}
    config = {"plugins": {"entries": entries}, "agents": {"defaults": {"model": "harbour/pilot-1"}}}
    (home / "palinurus.json").write_text(json.dumps(config))
    plugin(home / "plugins" / "gone", "1 / 0")
    main(["doctor"])
    out = capsys.readouterr().out
    assert "plugin harbour" in out and "plugin gone: ZeroDivisionError" in out and "model: harbour/pilot-1" in out
    assert main(["prompt", "show", "--json"]) == 0
    assert "high_water" in capsys.readouterr().out
    assert main(["policy", "explain", "high_water"]) == 0
