"""`pal approvals`: without a gateway on the store itself, beside one through it."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from nursery import Program
from palinurus.cli.access.approvals import run_approvals
from palinurus.clock import SystemClock
from palinurus.config.sections import approvals
from palinurus.core.types.approval import ApprovalRequest, CommandRule
from palinurus.errors import BadRequest, NotFound, StateLocked
from palinurus.services.approvals import ApprovalBoard
from palinurus.store.factory import open_store
from ports import reserve_port


@pytest.fixture(autouse=True)
def quiet(demo: Path) -> None:
    """No gateway of this machine is asked: ours has a port of its own."""
    port = reserve_port()
    config = (demo / "palinurus.json").read_text()
    (demo / "palinurus.json").write_text(config.replace("{agents", f"{{gateway: {{port: {port}}}, agents", 1))


def asked(home: Path, command: str = "touch X") -> str:
    """A question left open by a run that is gone. Returns its id."""

    async def leave() -> str:
        store = await open_store(str(home), SystemClock())
        ask = ApprovalRequest(
            "exec",
            "main",
            "agent:main:main",
            "r",
            "c",
            "exec",
            "run it",
            command,
            rules=(CommandRule("/usr/bin/touch"),),
        )
        told = await ApprovalBoard(store, SystemClock()).ask(ask, None)
        await store.close()
        return told.id

    return asyncio.run(leave())


def out(capsys: pytest.CaptureFixture[str], *argv: str, code: int = 0) -> str:
    assert run_approvals(list(argv)) == code
    return capsys.readouterr().out


def test_questions_are_listed_and_answered_once_without_a_gateway(
    demo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ident = asked(demo, "touch X\u202e")
    shown = out(capsys, "list")
    assert "touch X\\u202e" in shown and ident[:8] in shown
    assert json.loads(out(capsys, "list", "--json"))[0]["id"] == ident
    assert "serves its next try" in out(capsys, "answer", ident[:8], "allow-always")
    assert approvals.read_approvals(str(demo / "exec-approvals.json")).rules("main") == (CommandRule("/usr/bin/touch"),)
    assert "already answered" in out(capsys, "answer", ident, "deny", code=1)
    assert "unknown or expired" in out(capsys, "answer", "ffffff", "deny", code=1)
    assert out(capsys, "list") == "Nothing waits for an approval.\n"


def test_a_program_without_a_gateway_keeps_the_store_to_itself(demo: Path) -> None:
    ident = asked(demo)

    async def locked() -> None:
        store = await open_store(str(demo), SystemClock())
        try:
            with pytest.raises(StateLocked) as caught:
                await asyncio.to_thread(run_approvals, ["answer", ident, "deny"])
            assert "/approve" in caught.value.fix
        finally:
            await store.close()

    asyncio.run(locked())


def test_rules_are_added_listed_and_removed(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert out(capsys, "allowlist") == "No rules.\n"
    assert out(capsys, "allowlist", "add", "ls", "-l").startswith("Added: /")
    assert out(capsys, "allowlist", "add", "ls", "-l") == "It was there already.\n"
    assert "any arguments" in out(capsys, "allowlist", "--agent", "*", "add", "/opt/tools/*")
    listed = out(capsys, "allowlist", "list")
    assert "'-l'" in listed and "/opt/tools/*" in listed
    (both,) = [json.loads(out(capsys, "allowlist", "--json"))]
    assert len(both) == 2
    pattern = both[1]["rule"]["pattern"]
    assert out(capsys, "allowlist", "remove", pattern) == "Removed 1.\n"
    assert out(capsys, "allowlist", "remove", pattern, code=1) == "There is no such rule.\n"
    for words in (["sh", "-c", "ls"], ["python3"], ["/usr/bin/env"], ["sudo", "ls"]):
        with pytest.raises(BadRequest, match="runs other programs"):
            run_approvals(["allowlist", "add", *words])
    with pytest.raises(BadRequest):
        run_approvals(["allowlist", "add"])
    with pytest.raises(NotFound):
        run_approvals(["allowlist", "--agent", "nobody"])


def test_in_a_new_home_nothing_waits(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert out(capsys, "list") == "Nothing waits for an approval.\n" and not (demo / "state.db").exists()
    assert out(capsys, "list", "--json") == "[]\n"


def test_a_broken_file_is_said(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (demo / "exec-approvals.json").write_text("{")
    assert "every command is refused" in out(capsys, "allowlist")


def test_beside_a_gateway_the_gateway_answers(demo: Path, pal: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    """The store is locked by it, so an answer that arrives can only have come through it."""
    ident = asked(demo)
    process = Program("gateway", "--port", "0", stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        assert process.stdout is not None
        while not (demo / "gateway.json").exists():
            assert process.poll() is None, process.stdout.read()
            process.stdout.readline()
        listed = pal("approvals", "list")
        assert ident[:8] in listed.stdout, listed
        answered = pal("approvals", "answer", ident[:8], "deny")
        assert answered.returncode == 0 and answered.stdout.startswith("Denied"), answered
        again = pal("approvals", "answer", ident[:8], "deny")
        assert again.returncode == 1 and "already answered" in again.stdout
    finally:
        process.terminate()
        process.wait(20)
