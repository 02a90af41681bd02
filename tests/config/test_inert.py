"""Every key has a fate: somebody acts on it, or it is said that nobody does."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec

import palinurus
from config_report import judge_all, judge_declared
from palinurus.config.declare import Section, list_fields
from palinurus.config.inert import find_reason, list_inert
from palinurus.config.load import judge_config, load_config
from palinurus.config.settings import Settings

ACTING = 701  # of the keys that OpenClaw documents; only larger numbers are put here
SOURCE = Path(palinurus.__file__).parent


def test_every_documented_key_acts_or_is_said_not_to() -> None:
    fates = judge_all()
    assert [key for key, fate in fates.items() if fate == "unknown"] == []
    assert len(fates) == 957 and Counter(fates.values())["acts"] >= ACTING


def test_every_declared_key_changes_the_settings_or_is_said_not_to() -> None:
    fates = judge_declared()
    assert len(fates) > 700 and [key for key, fate in fates.items() if fate == "unknown"] == []


def test_inert_keys_are_found_wherever_they_may_stand() -> None:
    for key in list_inert():
        path = tuple(0 if part == "[]" else "defaults" if part == "*" else part for part in key.split("."))
        assert find_reason(path) and find_reason((*path, "below"))
    assert find_reason(("agents", "list", 3, "cwd")) == find_reason(("agents", "entries", "a", "cwd")) == "not built"
    assert find_reason(("agents", "list", 3, "tools", "codeMode")) == "not built"
    assert find_reason(("channels", "discord", "accounts", "a", "network", "autoSelectFamily"))
    assert not find_reason(("agents", "defaults")) and not find_reason(())


def test_the_load_tells_of_them_once_with_their_line(tmp_path: Path) -> None:
    (tmp_path / "palinurus.json").write_text(
        "{\n crestodian: {provider: 'x', voiceId: 'y'},\n channels: {discord: {\n  actions: {stickers: true}}}}"
    )
    loaded = load_config(str(tmp_path), {})
    assert [(problem.path, problem.line, problem.fatal) for problem in loaded.problems] == [
        ("crestodian", 2, False),
        ("channels.discord.actions.stickers", 4, False),
    ]
    assert all("is known, but not acted on: " in problem.message for problem in loaded.problems)
    assert loaded.settings.channels["discord"] == {"actions": {}}


def test_a_variable_below_an_inert_key_is_not_missed() -> None:
    found = judge_config("{crestodian: {apiKey: '${NOT_SET_HERE}'}}", "f", "/h", {})
    assert [problem.path for problem in found.inert] == ["crestodian"]


def list_structs(form: Any, seen: set[type]) -> Iterator[type[msgspec.Struct]]:
    """The records that settings are made of."""
    if isinstance(form, type) and issubclass(form, msgspec.Struct):
        if form not in seen:
            seen.add(form)
            yield form
            for below in msgspec.structs.fields(form):
                yield from list_structs(below.type, seen)
        return
    for below in get_args(form):
        yield from list_structs(below, seen)


def test_every_setting_is_read_by_the_program() -> None:
    """A field of the settings that is a key is asked for by name somewhere outside the config."""
    read: set[str] = set()
    for file in SOURCE.rglob("*.py"):
        if "config" not in file.relative_to(SOURCE).parts[:1]:
            tree = ast.parse(file.read_text("utf-8"))
            read |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    inside = (SOURCE / "config").rglob("*.py")  # what a section says of itself: rules, limits, choices
    trees = [ast.parse(file.read_text("utf-8")) for file in inside]
    own = {node.attr for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    dead = [
        f"{form.__name__}.{key.field}"
        for form in list_structs(Settings, set())
        if issubclass(form, Section)
        for key in list_fields(form)
        if key.field not in read and key.field not in own
    ]
    assert not dead
