"""What a session is about."""

from __future__ import annotations

import json
from pathlib import Path

from palinurus.sessions.titles import TITLE, read_title


def write(file: Path, *texts: str) -> str:
    lines = [{"type": "session", "version": 3, "id": "s", "timestamp": "2026-01-01T00:00:00Z"}]
    rows = [
        {"type": "message", "id": f"{n:08x}", "message": {"role": "user", "content": text, "timestamp": 1}}
        for n, text in enumerate(texts)
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in (*lines, *rows)))
    return str(file)


def test_a_person_s_first_words_before_the_program_s(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    assert read_title(write(file, "[cron:1 up] go", "what is\nthe weather?", "and tomorrow?")) == "what is the weather?"
    assert read_title(write(file, "[cron:1 up] go")) == "Job: up"
    assert read_title(write(file)) == "" and read_title(str(tmp_path / "none.jsonl")) == ""


def test_only_the_beginning_of_a_file_is_read(tmp_path: Path) -> None:
    assert read_title(write(tmp_path / "x.jsonl", "first", *["much " * 20_000] * 20)) == "first"
    assert read_title(write(tmp_path / "x.jsonl", "long " * 20_000)) == ""  # a line that is cut is no message
    assert len(read_title(write(tmp_path / "x.jsonl", "long " * 100))) <= TITLE
