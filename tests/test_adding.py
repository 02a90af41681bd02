"""docs/adding.md, followed: its code is what one would write, and each piece works in the whole program."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from channels.scene import PROVIDER, until
from gateway.whole import place
from palinurus import Agent
from palinurus.app import App
from palinurus.channels import CHANNELS, ChannelEntry
from palinurus.config.load import load_config
from palinurus.core.types.model import ModelSpec
from palinurus.gateway.methods import METHODS
from palinurus.providers import VENDORS
from palinurus.providers.catalog import Catalog
from palinurus.testing.model import ScriptedModel, call_tools, say
from palinurus.testing.platform import FastClock

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "adding.md").read_text(encoding="utf-8")
RECIPES = {found[0]: found[1] for found in re.findall(r"## ([^\n]+)\n(.*?)(?=\n## |\Z)", TEXT, re.DOTALL)}


def build(recipe: str, name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The recipe's code as a module that a row of a table can name."""
    (code,) = re.findall(r"```python\n(.*?)```", RECIPES[recipe], re.DOTALL)
    module = ModuleType(name)
    monkeypatch.setitem(sys.modules, name, module)
    exec(compile(code, f"docs/adding.md ({recipe})", "exec"), module.__dict__)
    return module


@pytest.mark.parametrize("recipe", list(RECIPES))
def test_ten_steps_whose_files_exist(recipe: str) -> None:
    assert re.findall(r"^(\d+)\. ", RECIPES[recipe], re.MULTILINE) == [str(n) for n in range(1, 11)]
    named = re.findall(r"`([a-z_/]+/(?:[a-z_]+\.py)?)`", RECIPES[recipe])
    places = [ROOT / "src" / "palinurus", ROOT]
    assert named and not [name for name in named if not any((place / name).exists() for place in places)]


async def test_a_channel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build("A channel", "echo_channel", monkeypatch)
    monkeypatch.setitem(CHANNELS, "echo", ChannelEntry("echo_channel:EchoChannel", own=True))
    config = {
        "models": {"providers": {"fake": PROVIDER}},
        "agents": {"defaults": {"model": "fake/m"}},
        "channels": {"echo": {"question": "hi"}},
    }
    (tmp_path / "palinurus.json").write_text(json.dumps(config))
    model = ScriptedModel([say("hello from the agent")])
    settings = load_config(str(tmp_path), {}).settings
    app = App(settings, {"HOME": str(tmp_path)}, FastClock(), model=model)
    await app.start()
    try:
        channel: Any = app.channels["echo"]
        await until(lambda: channel.shown)
        assert channel.shown == ["hello from the agent"] and model.requests[0].messages[-1].text == "hi"
    finally:
        await app.stop()


def test_a_vendor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build("A vendor of models", "harbour_vendor", monkeypatch)
    monkeypatch.setitem(VENDORS, "harbour", "harbour_vendor:HARBOUR")
    settings = load_config(str(tmp_path), {}).settings
    found = Catalog(settings, {"HARBOUR_API_KEY": "k"}).find("harbour/tide-1", settings.agents[settings.default_agent])
    assert isinstance(found, ModelSpec)
    assert (found.context_window, found.base_url) == (128_000, "https://api.harbour.example/v1")


async def test_a_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    made = build("A tool", "tide_tool", monkeypatch)
    model = ScriptedModel([call_tools(("tide", {"port": "Brest"})), call_tools(("tide", {"unit": "cm"})), say("high")])
    async with Agent(model, tools=[made.read_tide]) as agent:
        assert (await agent.run("the tide?")).text == "high"
    results = [message.text for message in model.requests[-1].messages if hasattr(message, "toolCallId")]
    assert results[0] == "Brest: 3.1 m" and "port" in results[1]


async def test_a_gateway_method(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = build("A gateway method", "tide_methods", monkeypatch)
    for row in made.METHODS:
        monkeypatch.setitem(METHODS, row.name, row)
    async with place(tmp_path / "h", ScriptedModel([])) as here:
        assert await here.call("tide.get", port="Brest") == {"port": "Brest", "metres": 3.1}
        assert "port" in (await here.refused("tide.get", port="")).message
