"""docs/config.md, and what is said of every key."""

from __future__ import annotations

from pathlib import Path

from palinurus.config.check import walk_keys
from palinurus.config.load import find_unread, judge_config
from palinurus.config.reference import render_reference

DOCS = Path(__file__).parents[2] / "docs" / "config.md"


def test_the_document_is_what_the_declarations_say() -> None:
    made = "run `python -m palinurus.config.reference docs/config.md`"
    assert DOCS.read_text(encoding="utf-8") == render_reference(), made


def test_every_key_has_one_fate() -> None:
    fates: dict[tuple[str | int, ...], set[bool]] = {}
    for path, _, note in walk_keys(loose=True):
        fates.setdefault(path, set()).add(note.acts)
    both = [path for path, found in fates.items() if len(found) > 1]
    assert not both and sum(found == {True} for found in fates.values()) > 500


def test_dead_keys_are_told_with_their_line() -> None:
    text = '{\n  meta: { lastTouchedVersion: "1" },\n  gateway: {\n    port: 1,\n    push: { apns: {} },\n  },\n}'
    found = find_unread(judge_config(text, "f", "/s", {}), "f")
    assert [(p.path, p.line, p.fatal) for p in found] == [("gateway.push", 5, False)]
