"""One agent's memory: search, freshness, damage, and who wrote what."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

import tiny
from palinurus.clock import SystemClock
from palinurus.core.memory.results import MemoryExcerpt, MemoryFindings, MemoryOptions, MemoryRefusal
from palinurus.errors import BadRequest, NotFound
from palinurus.workspace.memory.embedder import Embedder
from palinurus.workspace.memory.history import KEPT, MemoryAuthor
from palinurus.workspace.memory.memory import AgentMemory, MemoryChange

DIRECT, GROUP = "agent:main:main", "agent:main:telegram:group:5"
ME = MemoryAuthor("edit", DIRECT, "run-1", "call-1")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    (folder / "memory").mkdir(parents=True)
    (folder / "MEMORY.md").write_text("# People\nAnna likes green tea.\nBob deploys on Fridays.\n")
    (folder / "memory" / "2026-01-31.md").write_text("# Release\nWe decided to postpone the launch.\n")
    return folder


def make(workspace: Path, **options: Any) -> AgentMemory:
    return AgentMemory(str(workspace.parent / "home"), "main", str(workspace), MemoryOptions(**options), SystemClock())


@pytest.fixture
def memory(workspace: Path) -> AgentMemory:
    return make(workspace)


def paths(found: MemoryFindings) -> list[str]:
    assert not found.disabled
    return [hit.path for hit in found.hits]


def test_what_is_found_and_where(memory: AgentMemory) -> None:
    (hit,) = memory.search("what tea does anna like?", DIRECT).hits
    assert (hit.path, hit.start_line, hit.source) == ("MEMORY.md", 1, "memory")
    assert "green tea" in hit.snippet and hit.score > 0.6 and hit.citation == "MEMORY.md#L1-L4"


def test_forms_of_a_word_and_parts_of_it(memory: AgentMemory) -> None:
    assert paths(memory.search("deploying", DIRECT)) == ["MEMORY.md"]
    assert paths(memory.search("postp", DIRECT)) == ["memory/2026-01-31.md"]
    assert paths(memory.search("iday", DIRECT)) == ["MEMORY.md"]  # inside a word: the fallback


def test_titles_weigh_more(memory: AgentMemory, workspace: Path) -> None:
    (workspace / "memory" / "a.md").write_text("# Other\n" + "the garden is nice\n" * 3)
    (workspace / "memory" / "b.md").write_text("# Garden\n" + "nothing of note here\n" * 3)
    assert paths(memory.search("garden", DIRECT))[0] == "memory/b.md"


def test_scripts_without_spaces(memory: AgentMemory, workspace: Path) -> None:
    (workspace / "memory" / "cjk.md").write_text("明日の会議は東京で行います。\n")
    assert paths(memory.search("東京会議", DIRECT)) == ["memory/cjk.md"]


def test_limits(workspace: Path) -> None:
    for n in range(20):
        (workspace / "memory" / f"{n:02}.md").write_text("apple pie\n" + ("pear\n" if n < 3 else ""))
    memory = make(workspace)
    assert len(memory.search("apple", DIRECT).hits) == 6
    assert len(memory.search("apple", DIRECT, 9).hits) == 9
    assert len(memory.search("apple pear quince", DIRECT, 20, 0.0).hits) == 20
    assert len(memory.search("apple", DIRECT, 20, 1.0).hits) <= 20
    best = memory.search("apple pear", DIRECT, 20, 0.0).hits
    assert {hit.path for hit in best[:3]} == {"memory/00.md", "memory/01.md", "memory/02.md"}


def test_citations_are_left_out_in_groups(memory: AgentMemory, workspace: Path) -> None:
    assert memory.search("tea", GROUP).hits[0].citation is None
    assert make(workspace, citations="on").search("tea", GROUP).hits[0].citation
    assert make(workspace, citations="off").search("tea", DIRECT).hits[0].citation is None


def test_it_is_always_fresh(memory: AgentMemory, workspace: Path) -> None:
    assert paths(memory.search("zebra", DIRECT)) == []
    (workspace / "memory" / "new.md").write_text("a zebra\n")
    assert paths(memory.search("zebra", DIRECT)) == ["memory/new.md"]
    (workspace / "memory" / "new.md").write_text("a horse\n")
    assert paths(memory.search("zebra", DIRECT)) == []
    assert paths(memory.search("horse", DIRECT)) == ["memory/new.md"]
    (workspace / "memory" / "new.md").unlink()
    assert paths(memory.search("horse", DIRECT)) == []


def test_a_touched_file_is_not_a_change(memory: AgentMemory, workspace: Path) -> None:
    memory.refresh()
    os.utime(workspace / "MEMORY.md", (1, 1))
    memory.refresh()
    assert len(memory.versions("MEMORY.md")) == 1


def test_files_are_private(memory: AgentMemory, workspace: Path) -> None:
    memory.refresh()
    folder = workspace.parent / "home" / "memory"
    assert {f.stat().st_mode & 0o777 for f in folder.iterdir()} == {0o600}
    assert folder.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("damage", ["garbage", "version", "hole"])
def test_a_damaged_index_is_made_anew(workspace: Path, damage: str) -> None:
    first = make(workspace)
    assert paths(first.search("tea", DIRECT))
    first.close()
    file = workspace.parent / "home" / "memory" / "main.sqlite"
    if damage == "garbage":
        file.write_bytes(b"no database" * 1000)
    elif damage == "version":
        with sqlite3.connect(file) as conn:
            conn.execute("UPDATE meta SET value = '999'")
    else:
        with sqlite3.connect(file) as conn:
            conn.execute("DROP TABLE chunks")
    again = make(workspace)
    assert paths(again.search("tea", DIRECT)) == ["MEMORY.md"]
    again.close()
    third = make(workspace)
    assert third.search("tea", DIRECT) == again.search("tea", DIRECT)


def test_damage_while_it_is_open(workspace: Path, memory: AgentMemory) -> None:
    assert paths(memory.search("tea", DIRECT))
    with sqlite3.connect(workspace.parent / "home" / "memory" / "main.sqlite") as conn:
        conn.execute("DROP TABLE chunks")
    assert paths(memory.search("tea", DIRECT)) == ["MEMORY.md"]


def test_where_nothing_can_be_written_it_still_searches(workspace: Path) -> None:
    (workspace.parent / "home").write_text("not a directory")
    found = make(workspace).search("tea", DIRECT)
    assert paths(found) == ["MEMORY.md"] and found.note


def test_a_broken_history_is_set_aside(workspace: Path) -> None:
    memory = make(workspace)
    memory.refresh()
    memory.close()
    folder = workspace.parent / "home" / "memory"
    (folder / "main.history.sqlite").write_bytes(b"no database" * 1000)
    (workspace / "MEMORY.md").write_text("changed\n")
    again = make(workspace)
    assert paths(again.search("changed", DIRECT)) == ["MEMORY.md"]
    assert any(".broken-" in f.name for f in folder.iterdir())


def test_other_settings_or_another_workspace_make_another_index(workspace: Path, tmp_path: Path) -> None:
    assert make(workspace).size()[1] == 2
    assert make(workspace, chunk=5, overlap=1).size()[1] > 2
    other = tmp_path / "other"
    other.mkdir()
    assert make(other).size()[:2] == (0, 0)


def test_switched_off(workspace: Path) -> None:
    assert "switched off" in make(workspace, enabled=False).search("tea", DIRECT).disabled


@given(st.text(max_size=60))
@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
def test_no_question_breaks_it(memory: AgentMemory, text: str) -> None:
    found = memory.search(text, DIRECT)
    assert not found.disabled and all(0 <= hit.score <= 1 and len(hit.snippet) <= 700 for hit in found.hits)


def test_bytes_that_are_no_text(memory: AgentMemory, workspace: Path) -> None:
    (workspace / "memory" / "b.md").write_bytes(b"\xef\xbb\xbfwombat \xff\xfe\x00 end\n")
    assert paths(memory.search("wombat", DIRECT)) == ["memory/b.md"]
    got = memory.get("memory/b.md")
    assert isinstance(got, MemoryExcerpt) and got.text.startswith("wombat")


@pytest.mark.seed(396)
def test_get_keeps_to_the_configured_limits(workspace: Path) -> None:
    (workspace / "MEMORY.md").write_text("".join(f"line {n}\n" for n in range(1, 3001)))
    usual = make(workspace).get("MEMORY.md")
    assert isinstance(usual, MemoryExcerpt) and usual.lines == 120 and usual.next == 121
    many = make(workspace).get("MEMORY.md", 1, 5000)
    assert isinstance(many, MemoryExcerpt) and 11_000 < len(many.text) <= 12_000 and many.next
    small = make(workspace, get_lines=7, get_chars=20).get("MEMORY.md", 3)
    assert isinstance(small, MemoryExcerpt) and small.text == "line 3\nline 4" and small.next == 5


def test_get_of_what_is_missing_or_no_memory(memory: AgentMemory, workspace: Path) -> None:
    missing = memory.get("memory/never.md")
    assert isinstance(missing, MemoryExcerpt) and missing.missing and missing.text == ""
    (workspace.parent / "secret.md").write_text("secret")
    (workspace / "memory" / "out.md").symlink_to(workspace.parent / "secret.md")
    for path in ("memory/out.md", "../secret.md", "AGENTS.md"):
        assert isinstance(memory.get(path), MemoryRefusal)


# --- who wrote what ---------------------------------------------------------------------------------------------


def edited(memory: AgentMemory, workspace: Path, text: str, author: MemoryAuthor = ME) -> None:
    """A tool call that names MEMORY.md."""
    since = SystemClock().now() - 100
    (workspace / "MEMORY.md").write_text(text)
    memory.note(MemoryChange(author, since, memory.roots.real("MEMORY.md") or ""))


def test_a_line_is_traced_to_the_call_that_wrote_it(memory: AgentMemory, workspace: Path) -> None:
    memory.refresh()
    edited(memory, workspace, "# People\nAnna likes black tea.\nBob deploys on Fridays.\n")
    told = [(t.text, t.version.kind, t.version.author.run) for t in memory.trace_lines("MEMORY.md")]
    assert told == [
        ("# People", "found", ""),
        ("Anna likes black tea.", "written", "run-1"),
        ("Bob deploys on Fridays.", "found", ""),
    ]


def test_a_search_before_the_note_does_not_hide_the_author(memory: AgentMemory, workspace: Path) -> None:
    memory.refresh()
    since = SystemClock().now() - 100
    (workspace / "MEMORY.md").write_text("new\n")
    memory.search("new", DIRECT)
    assert memory.versions("MEMORY.md")[-1].kind == "changed"
    memory.note(MemoryChange(ME, since, memory.roots.real("MEMORY.md") or ""))
    assert memory.versions("MEMORY.md")[-1].author == ME


def test_a_command_is_only_suspected_and_not_of_older_changes(memory: AgentMemory, workspace: Path) -> None:
    memory.refresh()
    (workspace / "MEMORY.md").write_text("by hand\n")
    os.utime(workspace / "MEMORY.md", (1000, 1000))
    (workspace / "memory" / "new.md").write_text("by the command\n")
    memory.note(MemoryChange(ME._replace(tool="exec"), SystemClock().now() - 1000))
    assert memory.versions("MEMORY.md")[-1].kind == "changed"
    last = memory.versions("memory/new.md")[-1]
    assert (last.kind, last.author.tool) == ("during", "exec")


def test_a_call_is_not_blamed_for_other_files(memory: AgentMemory, workspace: Path) -> None:
    memory.refresh()
    (workspace / "memory" / "other.md").write_text("somebody else\n")
    edited(memory, workspace, "mine\n")
    assert memory.versions("memory/other.md")[-1].kind == "changed"


def test_undo_goes_back_step_by_step(memory: AgentMemory, workspace: Path) -> None:
    file = workspace / "MEMORY.md"
    first = file.read_text()
    memory.refresh()
    edited(memory, workspace, "second\n")
    edited(memory, workspace, "third\n")
    dry = memory.undo("MEMORY.md", dry=True)
    assert "-third" in dry.diff and "+second" in dry.diff and file.read_text() == "third\n"
    memory.undo()
    assert file.read_text() == "second\n"
    memory.undo("MEMORY.md")
    assert file.read_text() == first
    with pytest.raises(BadRequest):
        memory.undo("MEMORY.md")
    third = next(v for v in memory.versions("MEMORY.md") if v.text == "third\n")
    memory.undo("MEMORY.md", third.n)
    assert file.read_text() == "third\n" and paths(memory.search("third", DIRECT)) == ["MEMORY.md"]
    assert [v.kind for v in memory.versions("MEMORY.md")] == ["found", "written", "written", *["undone"] * 3]


def test_undo_of_a_new_file_removes_it_and_of_a_removal_brings_it_back(memory: AgentMemory, workspace: Path) -> None:
    memory.refresh()
    file = workspace / "memory" / "new.md"
    since = SystemClock().now() - 100
    file.write_bytes(b"\xef\xbb\xbfnew \xff\n")
    memory.note(MemoryChange(ME, since, memory.roots.real("memory/new.md") or ""))
    assert memory.undo("memory/new.md").to == 0 and not file.exists()
    written = memory.versions("memory/new.md")[0]
    memory.undo("memory/new.md", written.n)
    assert file.read_bytes() == b"\xef\xbb\xbfnew \xff\n"
    file.unlink()
    assert memory.undo().path == "memory/new.md" and file.read_bytes() == b"\xef\xbb\xbfnew \xff\n"


def test_undo_never_removes_what_people_made(memory: AgentMemory, workspace: Path) -> None:
    memory.refresh()
    (workspace / "memory" / "mine.md").write_text("by hand\n")
    for path in ("memory/mine.md", "MEMORY.md"):
        with pytest.raises(BadRequest):
            memory.undo(path)
    assert (workspace / "memory" / "mine.md").exists()
    with pytest.raises(NotFound):
        memory.undo("memory/never.md")
    with pytest.raises(BadRequest):
        memory.undo("AGENTS.md")


def test_changes_while_nobody_watched_are_kept_too(workspace: Path) -> None:
    first = make(workspace)
    first.refresh()
    first.close()
    (workspace / "MEMORY.md").write_text("changed meanwhile\n")
    (workspace / "memory" / "2026-01-31.md").unlink()
    (workspace.parent / "home" / "memory" / "main.sqlite").unlink()
    again = make(workspace)
    assert [v.kind for v in again.versions("MEMORY.md")] == ["found", "changed"]
    assert again.versions("memory/2026-01-31.md")[-1].hash == ""
    again.undo("memory/2026-01-31.md")
    assert "postpone" in (workspace / "memory" / "2026-01-31.md").read_text()


def test_the_history_is_bounded(memory: AgentMemory, workspace: Path) -> None:
    for n in range(KEPT + 20):
        edited(memory, workspace, f"version {n}\n")
    versions = memory.versions("MEMORY.md")
    assert len(versions) == KEPT and versions[0].kind == "found" and versions[-1].text == f"version {KEPT + 19}\n"


# --- by meaning ---------------------------------------------------------------------------------------------------


@pytest.fixture
def meaning(workspace: Path) -> Iterator[tuple[AgentMemory, Embedder]]:
    pytest.importorskip("numpy")
    home = workspace.parent / "home"
    tiny.model(home)
    (workspace / "MEMORY.md").write_text("green tea tea tea\n")
    (workspace / "memory" / "2026-01-31.md").write_text("the cat cat cat\n")
    embedder = Embedder(str(home))
    memory = AgentMemory(str(home), "main", str(workspace), MemoryOptions(), SystemClock(), embedder)
    yield memory, embedder
    embedder.close()
    memory.close()


def filled(memory: AgentMemory) -> int:
    memory.refresh()
    made = 0
    while count := memory.fill():
        made += count
    return made


def test_other_words_of_the_same_meaning_are_found(meaning: tuple[AgentMemory, Embedder], workspace: Path) -> None:
    memory, _ = meaning
    assert paths(memory.search("beverage", DIRECT)) == []  # words alone, as long as nothing has a vector
    assert filled(memory) == 2 and memory.vectors() == (2, "")
    assert paths(memory.search("beverage", DIRECT))[0] == "MEMORY.md"
    assert paths(memory.search("kitten", DIRECT))[0] == "memory/2026-01-31.md"
    assert paths(memory.search("cat", DIRECT, least=0.9)) == ["memory/2026-01-31.md"]  # exact words stay first
    # A changed file gives up its vector, and gets another.
    (workspace / "MEMORY.md").write_text("the bill bill bill\n")
    assert filled(memory) == 1 and memory.vectors()[0] == 2
    assert paths(memory.search("money", DIRECT))[0] == "MEMORY.md"
    (workspace / "MEMORY.md").unlink()
    assert "MEMORY.md" not in paths(memory.search("money", DIRECT, least=0.0))


def test_a_model_that_breaks_leaves_the_words(meaning: tuple[AgentMemory, Embedder]) -> None:
    memory, embedder = meaning
    assert filled(memory) == 2
    embedder._retire()
    Path(embedder.model).write_bytes(b"x")
    found = memory.search("green tea", DIRECT)
    assert paths(found) == ["MEMORY.md"] and "failed" in found.note
    Path(embedder.model).unlink()
    assert memory.search("green tea", DIRECT).note == "" and "pull" in memory.vectors()[1]


def test_an_index_made_anew_is_searched_anew(meaning: tuple[AgentMemory, Embedder], workspace: Path) -> None:
    memory, _ = meaning
    assert filled(memory) == 2 and paths(memory.search("beverage", DIRECT))
    memory._index.renew(sqlite3.DatabaseError("damaged"))
    assert filled(memory) == 2 and paths(memory.search("beverage", DIRECT))[0] == "MEMORY.md"
