"""The table of keys that only one channel has is what the channels read, and typed values become what they are."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

import palinurus.channels
from palinurus.core.channelneeds import NEEDS, OWN_KEYS, OwnKind, find_own_kind, read_own_value

READ: dict[str, OwnKind] = {
    "text": "text", "secret": "text", "flag": "flag", "number": "number", "texts": "texts", "section": "object",
}  # fmt: skip


def test_every_key_that_a_channel_reads_is_in_the_table() -> None:
    wrong, folder = [], Path(palinurus.channels.__file__).parent
    for name in OWN_KEYS:
        own = folder / name.replace("-", "")
        files = [folder / f"{name}.py"] if (folder / f"{name}.py").exists() else sorted(own.glob("*.py"))
        assert files, name
        for file in files:
            for node in ast.walk(ast.parse(file.read_text())):
                if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not node.args:
                    continue
                key, kind = node.args[0], READ.get(node.func.attr)
                kit = ast.unparse(node.func.value).endswith("kit")
                if kit and kind and isinstance(key, ast.Constant) and find_own_kind(name, str(key.value)) != kind:
                    wrong.append(f"{file.name}:{node.lineno} {name}.{key.value} is read as {kind}")
    assert not wrong, wrong


def test_what_is_needed_is_in_the_table() -> None:
    assert all(find_own_kind(name, need.key) for name, needs in NEEDS.items() for need in needs)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("text", "5", "5"),
        ("flag", "false", False),
        ("flag", "On", True),
        ("flag", "maybe", None),
        ("number", "20530", 20530),
        ("number", "0.5", 0.5),
        ("number", "true", None),
        ("number", "abc", None),
        ("texts", '["#den", "#x"]', ["#den", "#x"]),
        ("texts", "#den, #x", ["#den", "#x"]),
        ("object", '{"enabled": true}', {"enabled": True}),
        ("object", "yes", None),
        ("number", "${PORT}", "${PORT}"),
    ],
)
def test_what_is_typed_becomes_what_the_key_is(kind: OwnKind, text: str, value: Any) -> None:
    assert read_own_value(kind, text) == value
