"""docs/config.md, and what is said of every key."""

from __future__ import annotations

from pathlib import Path

from palinurus.config.check import walk_keys
from palinurus.config.inert import find_reason
from palinurus.config.load import judge_config
from palinurus.config.reference import render_reference

DOCS = Path(__file__).parents[2] / "docs" / "config.md"


def test_the_document_is_what_the_declarations_say() -> None:
    made = "run `python -m palinurus.config.reference docs/config.md`"
    assert DOCS.read_text(encoding="utf-8") == render_reference(), made


def test_a_key_is_declared_or_inert_never_both() -> None:
    declared = {path for path, _, _ in walk_keys(loose=True)}
    assert len(declared) > 500
    assert not [path for path in declared if find_reason(path)]


def test_dead_keys_are_told_with_their_line() -> None:
    text = '{\n  meta: { lastTouchedVersion: "1" },\n  gateway: {\n    port: 1,\n    push: { apns: {} },\n  },\n}'
    found = judge_config(text, "f", "/s", {}).inert
    assert [(p.path, p.line, p.fatal) for p in found] == [("gateway.push", 5, False)]
    assert (
        found[0].message
        == "is known, but not acted on: nodes are paired by a code or a person, and offer what docs/nodes.md lists"
    )
