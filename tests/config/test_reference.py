"""docs/config.md, and what is said of every key."""

from __future__ import annotations

from pathlib import Path
from typing import TypeGuard

from palinurus.config.check import walk_keys
from palinurus.config.declare import SectionKind, list_fields
from palinurus.config.inert import find_reason
from palinurus.config.kinds import Kind
from palinurus.config.load import judge_config
from palinurus.config.reference import render_reference
from palinurus.config.secrets import is_secret

DOCS = Path(__file__).parents[2] / "docs" / "config.md"


def test_the_document_is_what_the_declarations_say() -> None:
    made = "run `python -m palinurus.config.reference docs/config.md`"
    assert DOCS.read_text(encoding="utf-8") == render_reference(), made


def test_a_key_is_declared_or_inert_never_both() -> None:
    declared = {path for path, _, _ in walk_keys()}
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


def test_every_key_has_a_sentence_and_every_sentence_a_key() -> None:
    """But for objects that only hold other keys."""
    bare = [
        ".".join(map(str, path))
        for path, kind, note in walk_keys()
        if not note.about and (is_secret(path[-1:]) or not any(holds_keys(option) for option in kind.options))
    ]
    assert bare == []
    for cls in {option.cls for _, kind, _ in walk_keys() for option in kind.options if is_section(option)}:
        told = {line.split()[0] for line in vars(cls).get("ABOUT", "").splitlines() if line.strip()}
        places = {key.place for key in list_fields(cls) if not key.about}
        plain = {name for name, form in cls.KNOWN.items() if not any(map(is_text, getattr(form, "__metadata__", ())))}
        assert told <= places | plain, cls


def is_text(mark: object) -> bool:
    return isinstance(mark, str)


def is_section(option: object) -> TypeGuard[SectionKind]:
    return isinstance(option, SectionKind)


def holds_keys(option: Kind) -> bool:
    return is_section(option) or bool(option.list_keys())
