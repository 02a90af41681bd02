"""Calls that nobody was asked about: found in their transcript, and judged again."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from palinurus import Agent
from palinurus.cli.look.preview import run_policy
from palinurus.errors import NotFound
from palinurus.testing.model import ScriptedModel, call_tools, say

PLUGIN = """
from palinurus import ToolReach, tool

@tool(effect="pure", reach=ToolReach("mine"))
def read_bill(name: str) -> str:
    "A bill."
    return "pay UK1"

@tool(reach=ToolReach("out", to=("recipient",), upto=("amount",)))
def send_money(recipient: str, amount: float) -> str:
    "Transfer money."
    return "sent"

def register(api):
    api.tool(read_bill)
    api.tool(send_money)
"""
CONFIG = {
    "plugins": {"entries": {"bank": {"enabled": True}}},
    "agents": {"defaults": {"skipBootstrap": True, "model": {"primary": "fake/m"}}},
    "models": {"providers": {"fake": {"baseUrl": "http://127.0.0.1:9/v1", "apiKey": "k", "models": [{"id": "m"}]}}},
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    bank = tmp_path / "plugins" / "bank"
    bank.mkdir(parents=True)
    (bank / "plugin.py").write_text(PLUGIN)
    (bank / "palinurus.plugin.json").write_text(
        json.dumps({"id": "bank", "description": "A bank", "capabilities": ["tools"]})
    )
    (tmp_path / "palinurus.json").write_text(json.dumps(CONFIG))
    (tmp_path / "palinurus.json").chmod(0o600)
    monkeypatch.setenv("PALINURUS_HOME", str(tmp_path))
    return tmp_path


async def play(home: Path) -> None:
    pay = ("send_money", {"recipient": "DE89", "amount": 25})
    model = ScriptedModel([call_tools(("read_bill", {"name": "x"})), call_tools(pay), say("done")])
    async with Agent(model=model, home=home) as agent:
        assert (await agent.run("Send 25 euros to DE89")).text == "done"


def test_why_nobody_was_asked(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(play(home))
    assert run_policy(["why", "send_money"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "send_money: nobody was asked",
        "untrusted content before it: plugin:bank",
        "recipient: DE89  (you wrote it)",
        "amount: 25  (you wrote it)",
        "why: your words ask for it, and you gave all that decides",
        "outcome: done",
    ]
    assert run_policy(["why", "read_bill", "--json"]) == 0
    assert "nothing from outside had been read" in json.loads(capsys.readouterr().out)["lines"][1]
    with pytest.raises(NotFound):
        run_policy(["why", "exec"])
