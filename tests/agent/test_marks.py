"""Marks of files, and the taint that a session begins with."""

from __future__ import annotations

from pathlib import Path

from palinurus.agent.marks import TaintMarks
from palinurus.core.types.messages import TextBlock, ToolResult, UserMessage
from palinurus.sessions.entries import CompactionEntry
from palinurus.sessions.transcript import Transcript
from palinurus.store.factory import open_store
from palinurus.testing.clock import FakeClock


async def test_a_mark_outlives_the_process_and_goes_with_its_file(tmp_path: Path) -> None:
    note = tmp_path / "memory" / "a.md"
    note.parent.mkdir()
    note.write_text("x")
    store = await open_store(str(tmp_path / "h"), FakeClock())
    marks = TaintMarks(store)
    await marks.add(str(note), ("web a",))
    await marks.add(str(note), ("web b",))
    assert marks.of(str(note)) == ("web a", "web b") and marks.of(str(tmp_path)) == ()
    await store.close()
    store = await open_store(str(tmp_path / "h"), FakeClock())
    again = TaintMarks(store)
    await again.load()
    assert again.of(str(note)) == ("web a", "web b")
    assert again.workspace_taint(str(tmp_path), notes=False) == () and again.workspace_taint(
        str(tmp_path), notes=True
    ) == ("memory memory/a.md",)
    note.unlink()
    assert again.of(str(note)) == ()
    await store.close()


async def test_the_taint_of_a_session_survives_its_summary(tmp_path: Path) -> None:
    store = await open_store(str(tmp_path / "h"), FakeClock())
    transcript = Transcript("t.jsonl")
    transcript.add(UserMessage("hi"), "i", 1)
    transcript.add(ToolResult("1", "web_fetch", (TextBlock("page"),), source="web a"), "i", 2)
    transcript.add(UserMessage("from a member", 3, "member you"), "i", 3)
    transcript.add_entry(CompactionEntry(summary="They read a page."), 4)
    assert len(transcript.messages()) == 1
    assert await TaintMarks(store).taint(transcript, str(tmp_path), notes=False) == ("web a", "member you")
    await store.close()
