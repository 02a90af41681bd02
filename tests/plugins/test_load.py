"""Loading plugins: what they bring, what they may not, and that a broken one harms nobody."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from palinurus.config.load import load_config
from palinurus.plugins.hooks import Hooks
from palinurus.plugins.load import PluginSet, load_plugins
from plugins.kit import EVERY, plugin, settings

TOOL = "from palinurus import tool\n@tool\ndef {0}(x: str) -> str:\n    return x\napi.tool({0})"


def loaded(home: Path, *ids: str, **taken: Any) -> PluginSet:
    return load_plugins(settings(home, *ids), Hooks(), taken)


def test_what_a_plugin_brings(tmp_path: Path) -> None:
    code = "\n".join(
        (
            TOOL.format("echo"),
            "api.hook('agent_start' if False else 'message_sent', lambda e: None, 4)",
            "api.command('say', 'says it', lambda asked: asked.args)",
            "from palinurus.core.types.vendor import Vendor",
            "api.vendor(Vendor('acme', 'Acme', 'openai-completions', 'http://x'))",
            "api.channel('pigeon', lambda config: None)",
            "api.skills('more')",
            "api.cli('fly', lambda args: 0)",
        )
    )
    folder = plugin(tmp_path / "plugins" / "one", code, cli={"fly": "flies"})
    (folder / "more").mkdir()
    made = loaded(tmp_path, "one")
    brought = made.brought
    assert [m.id for m in made.loaded] == ["one"] and made.broken == []
    assert brought.tools["echo"].origin == "one"
    assert [(h.point, h.priority, h.owner) for h in brought.hooks] == [("message_sent", 4, "one")]
    assert (*brought.commands, *brought.vendors, *brought.channels, *brought.cli) == ("say", "acme", "pigeon", "fly")
    assert brought.skills == [str(folder / "more")]


@pytest.mark.parametrize(
    ("capability", "code"),
    [
        ("tools", TOOL.format("echo")),
        ("hooks", "api.hook('message_sent', lambda e: None)"),
        ("commands", "api.command('x', '', lambda a: '')"),
        ("vendors", "api.vendor(None)"),
        ("channels", "api.channel('x', None)"),
        ("skills", "api.skills('.')"),
        ("cli", "api.cli('x', None)"),
    ],
)
def test_what_is_not_declared_cannot_be_registered(tmp_path: Path, capability: str, code: str) -> None:
    rest = [one for one in EVERY if one != capability]
    other = "api.command('fine', '', lambda a: '')" if capability != "commands" else "api.channel('fine', None)"
    plugin(tmp_path / "plugins" / "one", f"{other}\n{code}", capabilities=rest)
    made = loaded(tmp_path, "one")
    (broken,) = made.broken
    assert "PluginRegistrationError" in broken.reason and capability in broken.reason and "plugin.py:" in broken.reason
    assert made.brought.commands == {} and made.brought.channels == {}  # nothing of it, not even what was fine


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("1 / 0", "ZeroDivisionError"),
        ("import no_such_module", "ModuleNotFoundError"),
        ("raise SystemExit(3)", "SystemExit"),
        ("api.hook('no_such_point', print)", "no such point"),
        ("api.command('UPPER', '', print)", "a name is a-z"),
        (TOOL.format("echo") + "\napi.tool(echo)", "registered twice"),
        ("api.skills('nowhere')", "no folder"),
        (TOOL.format("taken"), "'taken' is the program's own"),
    ],
)
def test_a_broken_plugin_is_set_aside_and_the_others_work(tmp_path: Path, code: str, why: str) -> None:
    plugin(tmp_path / "plugins" / "bad", code)
    plugin(tmp_path / "plugins" / "good", TOOL.format("fine"))
    made = loaded(tmp_path, "bad", "good", tools=("taken",))
    assert [b.id for b in made.broken] == ["bad"] and why in made.broken[0].reason
    assert list(made.brought.tools) == ["fine"]


def test_a_file_that_does_not_parse_names_its_place(tmp_path: Path) -> None:
    folder = plugin(tmp_path / "plugins" / "bad")
    (folder / "plugin.py").write_text("def register(:\n")
    (broken,) = loaded(tmp_path, "bad").broken
    assert "SyntaxError" in broken.reason and "line 1" in broken.reason


def test_of_two_with_one_name_the_first_wins(tmp_path: Path) -> None:
    plugin(tmp_path / "plugins" / "a", TOOL.format("same"))
    plugin(tmp_path / "plugins" / "b", TOOL.format("same"))
    made = loaded(tmp_path, "a", "b")
    assert made.brought.tools["same"].origin == "a"
    assert "another plugin has registered 'same'" in made.broken[0].reason


def test_nothing_of_a_disabled_plugin_is_imported(tmp_path: Path) -> None:
    folder = plugin(tmp_path / "plugins" / "off")
    (folder / "plugin.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w')\ndef register(api): pass\n")
    assert loaded(tmp_path).loaded == []
    assert not (tmp_path / "imported").exists() and "palinurus_plugin_off" not in sys.modules
    assert [m.id for m in loaded(tmp_path, "off").loaded] == ["off"]
    assert (tmp_path / "imported").exists()


def test_files_beside_the_plugin_can_be_imported(tmp_path: Path) -> None:
    folder = plugin(tmp_path / "plugins" / "parts", "from .words import WORD\napi.command(WORD, '', print)")
    (folder / "words.py").write_text("WORD = 'ahoy'\n")
    assert list(loaded(tmp_path, "parts").brought.commands) == ["ahoy"]


SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "properties": {"port": {"type": "integer"}, "word": {"type": "string", "default": "hi"}},
}


def test_a_config_that_does_not_fit_is_told_with_file_and_line(tmp_path: Path) -> None:
    plugin(tmp_path / "plugins" / "one", configSchema=SCHEMA)
    config = {"plugins": {"entries": {"one": {"config": {"port": "80", "wrod": 1}}}}}
    text = json.dumps(config, indent=1)
    (tmp_path / "palinurus.json").write_text(text)
    (broken,) = load_plugins(load_config(str(tmp_path), {}).settings, Hooks()).broken
    line = 1 + next(at for at, row in enumerate(text.splitlines()) if '"port"' in row)
    assert f"plugins.entries.one.config.port: expected integer ({tmp_path}/palinurus.json:{line})" in broken.reason
    assert "did you mean 'word'?" in broken.reason


def test_config_reaches_the_plugin_with_defaults_and_secrets(tmp_path: Path) -> None:
    plugin(tmp_path / "plugins" / "one", "api.command(api.config['word'], api.config['key'], print)")
    schema = {"type": "object", "properties": {"word": {"default": "hi"}, "key": {"type": "string"}}}
    manifest = tmp_path / "plugins" / "one" / "palinurus.plugin.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "configSchema": schema}))
    secret = {"source": "env", "id": "ACME_KEY"}
    entries = {"one": {"config": {"key": secret}}}
    (tmp_path / "palinurus.json").write_text(json.dumps({"plugins": {"entries": entries}}))
    made = load_plugins(load_config(str(tmp_path), {"ACME_KEY": "s3cret"}).settings, Hooks())
    assert {name: spoken.help for name, spoken in made.brought.commands.items()} == {"hi": "s3cret"}


@pytest.mark.parametrize("allowed", [True, False])
def test_hooks_that_see_conversations_need_leave(tmp_path: Path, allowed: bool) -> None:
    plugin(tmp_path / "plugins" / "one", "api.hook('llm_input', print)\napi.hook('message_sent', print)")
    entry: dict[str, Any] = {
        "hooks": {"allowConversationAccess": allowed, "timeoutMs": 5, "timeouts": {"llm_input": 9}}
    }
    made = load_plugins(settings(tmp_path, plugins={"entries": {"one": entry}}), Hooks())
    points = {h.point: h.deadline for h in made.brought.hooks}
    assert points == ({"llm_input": 0.009} if allowed else {}) | {"message_sent": 0.005}
    assert bool(made.brought.warnings) is not allowed


async def test_prompt_fields_can_be_taken_away(tmp_path: Path) -> None:
    plugin(tmp_path / "plugins" / "one", "api.hook('before_prompt_build', lambda e: {'prependContext': 'x'})")
    for allowed, expected in ((True, {"prependContext": "x"}), (False, {})):
        hooks = Hooks()
        entry = {"hooks": {"allowPromptInjection": allowed}}
        load_plugins(settings(tmp_path, plugins={"entries": {"one": entry}}), hooks).brought.attach(hooks)
        assert await hooks.modify("before_prompt_build", {}) == expected


def test_an_installed_package_is_loaded_by_its_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "site" / "acme_buoys"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "main.py").write_text("def start(api):\n    api.command('buoy', api.id, print)\n")
    (package / "palinurus.plugin.json").write_text('{"id": "buoys", "capabilities": ["commands"]}')
    info = tmp_path / "site" / "acme_buoys-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-buoys\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[palinurus.plugins]\nbuoys = acme_buoys.main:start\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    made = loaded(tmp_path, "buoys")
    assert made.broken == [] and made.brought.commands["buoy"].help == "buoys"
