"""`pal policy`: what it prints, and that it is what a run gets."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from palinurus.cli.look.preview import run_policy
from palinurus.core.types.approval import ApprovalRequest, CommandRule
from palinurus.errors import BadRequest, NotFound
from palinurus.services.approvals import ApprovalBoard
from palinurus.store.factory import open_store
from palinurus.testing.clock import FakeClock

CONFIG: dict[str, Any] = {
    "models": {
        "providers": {
            "fake": {"baseUrl": "http://127.0.0.1:9/v1", "apiKey": "k", "models": [{"id": "m"}, {"id": "weak"}]}
        }
    },
    "agents": {
        "defaults": {"model": "fake/m"},
        "list": [{"id": "main"}, {"id": "work", "tools": {"profile": "minimal"}}],
    },
    "tools": {"deny": ["write"], "byProvider": {"fake/weak": {"allow": ["read"]}}},
    "channels": {"telegram": {"enabled": False, "groups": {"-5": {"toolsBySender": {"id:7": {"deny": ["exec"]}}}}}},
}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in list(os.environ):
        if name.endswith("_API_KEY") or name.startswith("PALINURUS"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PALINURUS_HOME", str(tmp_path))
    (tmp_path / "palinurus.json").write_text(json.dumps(CONFIG, indent=1))
    return tmp_path


def line_of(home: Path, text: str) -> int:
    lines = (home / "palinurus.json").read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def test_explain_in_words(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_policy(["explain", "write"]) == 1
    said = capsys.readouterr().out.splitlines()
    where = f"{home}/palinurus.json:{line_of(home, 'deny')}"
    assert said[0] == "for agent main, session agent:main:main, model fake/m, sender operator (owner)"
    assert said[1] == f"write is not offered: tools.deny names it ({where})."
    assert said[-2:] == ["to allow it:", "  take write out of tools.deny: pal config set tools.deny '[]'"]
    assert run_policy(["explain", "bash"]) == 0
    assert capsys.readouterr().out.splitlines()[1] == "exec is offered."


@pytest.mark.parametrize(
    ("args", "layer", "key"),
    [
        (["exec", "--model", "fake/weak"], 4, "tools.byProvider.fake/weak.allow"),
        (["exec", "--agent", "work"], 1, "agents.list[1].tools.profile"),
        (
            ["exec", "--channel", "telegram", "--group", "-5", "--sender", "7"],
            7,
            "channels.telegram.groups.-5.toolsBySender.id:7.deny",
        ),
        (["memory_get", "--session", "agent:main:subagent:x"], 8, "tools.subagents.tools"),
        (["exec", "--channel", "telegram", "--group", "-5", "--sender", "8"], 0, "tools.trustFrom"),
        (["read", "--channel", "telegram", "--group", "-5", "--sender", "8"], None, ""),
    ],
)
def test_explain_for_an_occasion(args: list[str], layer: int | None, key: str, capsys: Any) -> None:
    assert run_policy(["explain", *args, "--json"]) == (0 if layer is None else 1)
    body = json.loads(capsys.readouterr().out)
    assert (body["layer"], body["key"], body["available"]) == (layer, key, layer is None)
    assert len({step["layer"] for step in body["steps"]} - {0}) == 8


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_policy(["list", "--json"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert "write" in body["hidden"] and "read" in body["offered"] and "write" not in body["offered"]
    assert run_policy(["list"]) == 0
    assert "  write: tools.deny names it (layer 3)" in capsys.readouterr().out.splitlines()


def test_names_that_do_not_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_policy(["explain", "raed"]) == 1
    assert capsys.readouterr().out.splitlines()[1] == "There is no tool raed. Did you mean read?"


@pytest.mark.parametrize("argv", [[], ["explain"], ["dance"], ["list", "--what"], ["explain", "x", "--agent", "no"]])
def test_wrong_lines(argv: list[str]) -> None:
    with pytest.raises(BadRequest):
        run_policy(argv)


def test_why_a_call_was_asked_about(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ApprovalRequest(
        "tool", "main", "s", "r", call="call-7", tool="pay", title="use pay", why="because",
        facts=(("recipient", "UK1  (from bill.txt, not from you)"),), taint=("plugin:bank",),
        rules=(CommandRule("tool:pay", ("recipient=UK1", "amount<=5")),),
    )  # fmt: skip

    async def ask() -> None:
        store = await open_store(str(home), FakeClock())
        await ApprovalBoard(store, FakeClock()).ask(asked)
        await store.close()

    asyncio.run(ask())
    assert run_policy(["why", "call-7"]) == 0
    said = capsys.readouterr().out
    for part in (
        "pay: use pay",
        "recipient: UK1  (from bill.txt, not from you)",
        "plugin:bank",
        "amount<=5",
        "pending",
    ):
        assert part in said
    with pytest.raises(NotFound):
        run_policy(["why", "call-8"])
