"""Full-text search: finds what was said, keeps up with the files, survives a broken index."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palinurus.sessions.files import place_file
from palinurus.sessions.search import NAME, cut_excerpt, forget_files, parse_query, search_transcripts

T = 1_767_225_600_000


def said(*texts: str, role: str = "user", first: int = 0) -> bytes:
    lines = []
    for n, text in enumerate(texts, first):
        message: dict[str, Any] = {"role": role, "content": [{"type": "text", "text": text}], "timestamp": T + n * 1000}
        parent = f"{n - 1:08x}" if n else None
        lines.append(json.dumps({"type": "message", "id": f"{n:08x}", "parentId": parent, "message": message}))
    return ("\n".join(lines) + "\n").encode()


def put(home: Path, name: str, data: bytes, agent: str = "main") -> Path:
    path = f"agents/{agent}/sessions/{name}"
    place_file(str(home), path, data)
    return home / path


def found(home: Path, text: str, **how: Any) -> list[str]:
    result = search_transcripts(str(home), parse_query(text, **how))
    assert result.note == ""
    return [hit.text for hit in result.hits]


def test_words_phrases_stems_and_order(tmp_path: Path) -> None:
    put(tmp_path, "a.jsonl", said("the red boat", "a boat that is red", "Crème brûlée", "boats"))
    assert found(tmp_path, "red boat") == ["a boat that is red", "the red boat"]  # newest first
    assert found(tmp_path, '"red boat"') == ["the red boat"]
    assert found(tmp_path, "RED") == ["a boat that is red", "the red boat"]
    assert found(tmp_path, "boat*") == ["boats", "a boat that is red", "the red boat"]
    assert found(tmp_path, "creme brulee") == ["Crème brûlée"]
    assert found(tmp_path, "green") == []
    assert found(tmp_path, "boat*", limit=1) == ["boats"]
    assert found(tmp_path, "boat*", since=T + 1000) == ["boats", "a boat that is red"]
    assert (tmp_path / NAME).stat().st_mode & 0o777 == 0o600


def test_who_and_where(tmp_path: Path) -> None:
    body = said("plum")
    body += said("plum result", role="toolResult", first=1)
    body += (
        b'{"type":"compaction","id":"c","parentId":"00000001","timestamp":"2026-06-10T09:00:00Z","summary":"plums"}\n'
    )
    body += b'{"type":"custom","id":"d","parentId":"c","customType":"x","data":{"plum":1}}\n'
    put(tmp_path, "a.jsonl", body)
    put(tmp_path, "b.jsonl", said("plum"), agent="work")
    hits = search_transcripts(str(tmp_path), parse_query("plum*")).hits
    assert sorted((h.path, h.entry, h.who) for h in hits) == [
        ("agents/main/sessions/a.jsonl", "00000000", "user"),
        ("agents/main/sessions/a.jsonl", "00000001", "tool"),
        ("agents/main/sessions/a.jsonl", "c", "summary"),
        ("agents/work/sessions/b.jsonl", "00000000", "user"),
    ]
    assert len(search_transcripts(str(tmp_path), parse_query("plum", agent="work")).hits) == 1
    assert search_transcripts(str(tmp_path), parse_query("plum", agent="w*")).hits == ()


def test_scripts_without_spaces(tmp_path: Path) -> None:
    put(tmp_path, "a.jsonl", said("今日は東京に行きました", "오늘 서울에"))
    assert len(found(tmp_path, "東京")) == 1
    assert len(found(tmp_path, "서울")) == 1
    assert found(tmp_path, "大阪") == []


def test_it_keeps_up_with_the_files(tmp_path: Path) -> None:
    file = put(tmp_path, "a.jsonl", said("apple"))
    assert found(tmp_path, "apple") == ["apple"]
    with file.open("ab") as handle:
        handle.write(said("pear", first=1))
    assert found(tmp_path, "pear") == ["pear"]
    assert found(tmp_path, "apple") == ["apple"]  # once
    put(tmp_path, "a.jsonl", said("quince"))
    assert found(tmp_path, "apple") == []
    os.rename(file, f"{file}.reset.2026-06-10T09-00-01.000Z")
    assert found(tmp_path, "quince") == ["quince"]
    os.rename(f"{file}.reset.2026-06-10T09-00-01.000Z", f"{file}.deleted.2026-06-10T09-00-01.000Z")
    assert found(tmp_path, "quince") == []
    assert b"quince" not in (tmp_path / NAME).read_bytes()


def test_files_that_did_not_change_are_not_read_again(tmp_path: Path) -> None:
    file = put(tmp_path, "a.jsonl", said("apple"))
    found(tmp_path, "apple")
    times = file.stat()
    file.write_bytes(said("grape"))  # as long as before
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert found(tmp_path, "apple") == ["apple"]


@pytest.mark.parametrize("content", [b"garbage" * 1000, b"SQLite format 3\x00" + b"\x00" * 5000])
def test_a_damaged_index_is_made_anew(tmp_path: Path, content: bytes) -> None:
    put(tmp_path, "a.jsonl", said("apple"))
    (tmp_path / NAME).write_bytes(content)
    assert found(tmp_path, "apple") == ["apple"]
    assert found(tmp_path, "apple") == ["apple"]


def test_an_index_of_another_version_or_shape_is_made_anew(tmp_path: Path) -> None:
    put(tmp_path, "a.jsonl", said("apple"))
    for script in (
        "CREATE TABLE files (x); PRAGMA user_version = 99;",
        "CREATE TABLE files (x); PRAGMA user_version = 1;",
    ):
        (tmp_path / NAME).unlink(missing_ok=True)
        other = sqlite3.connect(tmp_path / NAME)
        other.executescript(script)
        other.close()
        assert found(tmp_path, "apple") == ["apple"]


def test_without_an_index_the_files_are_read(tmp_path: Path) -> None:
    put(tmp_path, "a.jsonl", said("the red boat", "a green boat"))
    put(tmp_path, "b.jsonl", said("red sails"), agent="work")
    (tmp_path / NAME).mkdir()
    result = search_transcripts(str(tmp_path), parse_query("red boat"))
    assert [hit.text for hit in result.hits] == ["the red boat"]
    assert "cannot be" in result.note
    assert len(search_transcripts(str(tmp_path), parse_query("red", agent="work")).hits) == 1
    assert len(search_transcripts(str(tmp_path), parse_query("boat", since=T + 1000)).hits) == 1
    assert len(search_transcripts(str(tmp_path), parse_query("boat", limit=1)).hits) == 1


def test_what_is_forgotten_is_not_in_the_file_any_more(tmp_path: Path) -> None:
    put(tmp_path, "a.jsonl", said("apple"))
    found(tmp_path, "apple")
    before = (tmp_path / NAME).stat().st_ino
    forget_files(str(tmp_path), ["agents/main/sessions/a.jsonl"])
    assert (tmp_path / NAME).stat().st_ino == before
    assert b"apple" not in (tmp_path / NAME).read_bytes()


def test_nothing_to_search(tmp_path: Path) -> None:
    assert search_transcripts(str(tmp_path), parse_query("x")).hits == ()
    assert search_transcripts(str(tmp_path / "none"), parse_query("x")).hits == ()
    assert not (tmp_path / NAME).exists()
    assert parse_query(' * "" -- ').terms == ()
    forget_files(str(tmp_path), ["x"])
    assert not (tmp_path / NAME).exists()


def test_what_stands_around(tmp_path: Path) -> None:
    text = "a " * 100 + "needle" + " b" * 200
    shown = cut_excerpt(text, ("needle",))
    assert shown.startswith("…")
    assert shown.endswith("…")
    assert "needle" in shown
    assert len(shown) < 200


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=30))
def test_no_query_is_an_error(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    home = tmp_path_factory.getbasetemp() / "any"
    if not home.exists():
        home.mkdir()
        put(home, "a.jsonl", said('he said "x" AND NOT y*', "NEAR(a b)"))
    assert search_transcripts(str(home), parse_query(text)).note == ""
