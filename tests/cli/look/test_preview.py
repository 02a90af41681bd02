"""`pal prompt show` prints what a run sends, byte for byte."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from palinurus.app import App
from palinurus.cli.look.preview import run_prompt
from palinurus.clock import SystemClock
from palinurus.config.load import load_config
from palinurus.core.types.inbound import Inbound, Sender, Target
from palinurus.errors import BadRequest
from palinurus.testing.home import make_home
from palinurus.testing.model import say
from palinurus.testing.server import ModelServer


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in list(os.environ):
        if name.endswith("_API_KEY") or name.startswith("PALINURUS"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PALINURUS_HOME", str(tmp_path / "home"))
    return tmp_path


async def sent(home: str, server: ModelServer, **message: Any) -> dict[str, Any]:
    """The body of the request a real run makes."""
    app = App(load_config(home, os.environ).settings, os.environ, SystemClock())
    await app.start()
    try:
        fields: dict[str, Any] = {
            "target": Target("terminal"),
            "sender": Sender("operator", owner=True),
            "at": 0,
            **message,
        }
        accepted = await app.submit(Inbound(event="e", text="hello", push=False, **fields))
        await app.wait(accepted.id)
    finally:
        await app.stop()
    return server.requests[-1].body


@pytest.mark.seed(190, 193)
@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], {}),
        (["--channel", "telegram"], {"target": Target("telegram")}),
        (["--channel", "discord", "--group"], {"target": Target("discord", "preview"), "kind": "group"}),
        (["--mode", "minimal"], {"session": "agent:main:subagent:preview"}),
        (["--agent", "work"], {"agent": "work"}),
    ],
)
@pytest.mark.parametrize("api", ["openai-completions", "anthropic-messages"])
async def test_shown_and_sent_are_byte_equal(
    place: Path, capsys: pytest.CaptureFixture[str], args: list[str], message: dict[str, Any], api: str
) -> None:
    agents = {"agents": {"list": [{"id": "main", "default": True}, {"id": "work", "workspace": str(place / "w2")}]}}
    async with ModelServer([say("hi")]) as server:
        home = make_home(place, agents, {"AGENTS.md": "Be kind."}, url=server.url, api=api)
        await asyncio.to_thread(run_prompt, ["show", *args])  # before there is any state
        first = capsys.readouterr().out
        body = await sent(home, server, **message)
        await asyncio.to_thread(run_prompt, ["show", *args])  # and beside it
        again = capsys.readouterr().out
    if api == "anthropic-messages":
        system = "\n\n".join(block["text"] for block in body["system"])
    else:
        system = body["messages"][0]["content"]
    assert first.encode() == again.encode() == system.encode() + b"\n"


def test_sizes_go_to_standard_error(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_home(place, {"agents": {"defaults": {"model": "builtin/demo"}}})
    assert run_prompt(["show"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("You are a personal assistant running inside Palinurus.")
    assert "-- cache boundary --" in err and "tooling" in err and err.splitlines()[-1].startswith("all")


def test_json_adds_up(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_home(place, {"agents": {"defaults": {"model": "builtin/demo"}}})
    run_prompt(["show", "--json", "--channel", "telegram"])
    told = json.loads(capsys.readouterr().out)
    assert told["text"] == f"{told['stable']}\n\n{told['volatile']}" and "channel=telegram" in told["volatile"]
    above = [s["chars"] for s in told["sections"] if s["stable"]]
    assert sum(above) + 2 * (len(above) - 1) == len(told["stable"])
    assert told["chars"] == len(told["text"]) and told["tools"]["count"] > 0 and told["model"] == "builtin/demo"


@pytest.mark.seed(163, 166, 230)
def test_modes(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_home(place, {"agents": {"defaults": {"model": "builtin/demo"}}})
    made = {}
    for mode in ("full", "minimal", "none"):
        run_prompt(["show", "--mode", mode])
        made[mode] = capsys.readouterr().out
    assert made["none"] == "You are a personal assistant running inside Palinurus.\n"
    assert "## Messaging" in made["full"] and "## Messaging" not in made["minimal"]
    assert len(made["none"]) < len(made["minimal"]) < len(made["full"])


@pytest.mark.parametrize("args", [["show", "--agent", "nobody"], ["show", "--model", "fake/none"], ["hide"]])
def test_what_cannot_be_shown(place: Path, args: list[str]) -> None:
    make_home(place, {"agents": {"defaults": {"model": "builtin/demo"}}})
    with pytest.raises(BadRequest):
        run_prompt(args)


def test_looking_makes_no_state(place: Path) -> None:
    make_home(place, {"agents": {"defaults": {"model": "builtin/demo"}}})
    run_prompt(["show"])
    assert all(name.startswith("palinurus.json") for name in os.listdir(place / "home"))  # the config and its copy
