"""The declared keys as one tree: what is wrong with a config, what can stand where. Pure.

The declarations of `schema` are the only source. No message quotes a secret.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, Literal

import msgspec

from palinurus.config.inert import find_reason
from palinurus.config.keypath import Path
from palinurus.config.kinds import KeyNote, Kind, KindReport, ListKind, MapKind, make_kind
from palinurus.config.schema import Config


def check_config(raw: dict[str, Any]) -> KindReport:
    """Everything wrong with a whole config. Unknown keys are not fatal, all else is."""
    report = KindReport([], [])
    make_kind(Config).check(raw, (), report)
    found = (finding for finding in report.wrong if not find_reason(finding.path))
    report.wrong[:] = [msgspec.structs.replace(one, fatal=one.fatal or guards(one.path)) for one in found]
    return report


def guards(path: Path) -> bool:
    """Does the key at `path` keep something closed?"""
    kind = describe_key(path)
    return find_note(path).closed is not msgspec.UNSET or bool(kind is not None and kind.close())


def describe_key(path: Path) -> Kind | None:
    """The kind of the key at `path`, any inside free-form sections; None if there is no such key."""
    kind: Kind | None = make_kind(Config)
    for part in path:
        kind = kind.step(part) if kind is not None else None
    return Kind() if kind is None and find_reason(path) else kind


def list_keys_below(path: Path) -> list[str]:
    """The keys that can stand directly below `path`."""
    kind = describe_key(path)
    return kind.list_keys() if kind is not None else []


def find_note(path: Path) -> KeyNote:
    """What is declared of the key at `path`."""
    if reason := find_reason(path):
        return KeyNote(inert=reason)
    around = describe_key(path[:-1]) if path else None
    return (around.find_note(path[-1]) if around else None) or KeyNote()


def walk_keys(kind: Kind | None = None, path: Path = ()) -> Iterator[tuple[Path, Kind, KeyNote]]:
    """Every declared key, the one around others first. `*` stands for any name, `[]` for any item of a list."""
    for option in (kind or make_kind(Config)).options:
        for name in option.list_keys():
            below = option.step(name) or Kind()
            yield (*path, name), below, option.find_note(name) or KeyNote()
            yield from walk_keys(below, (*path, name))
        if isinstance(option, ListKind | MapKind):
            part = "[]" if isinstance(option, ListKind) else "*"
            yield from walk_keys(option.item, (*path, part))


@cache
def list_marked_keys(mark: Literal["restart", "live"]) -> tuple[Path, ...]:
    """The keys that are read only when the gateway starts, or every time."""
    return tuple(path for path, _, note in walk_keys() if getattr(note, mark))
