"""`$include`: parts of the config in files of their own, and the file and line that a key stands in.

`{$include: "a.json5"}` is what that file says; of several files the later ones lie over the earlier, and keys beside
`$include` over all of them; lists are joined. A file is named from the one that names it on, and lies in the config's
folder or in one that PALINURUS_INCLUDE_ROOTS lists. One that cannot be read costs the object that it stands in.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from palinurus.config import files, lines, relaxed
from palinurus.config.findings import ConfigFinding
from palinurus.config.keypath import Path, show_path
from palinurus.errors import Problem

KEY = "$include"
ROOTS = "PALINURUS_INCLUDE_ROOTS"
MAX_LEVELS = 10
MAX_FILES = 200


class ConfigPart(msgspec.Struct, frozen=True):
    """One file, and where in the config what it says stands. Its text is left out of `repr`: it may hold secrets."""

    file: str
    text: str
    at: Path = ()

    def __repr__(self) -> str:
        return f"ConfigPart({self.file!r}, at={self.at!r})"


class _Unreadable(Exception):
    """Why an include cannot be followed, and what to do."""


class ConfigIncluder:
    """Follows the includes of one config. `parts`: every file that was read; `findings`: what could not be."""

    def __init__(self, file: str, text: str, environ: Mapping[str, str]) -> None:
        self.parts = [ConfigPart(file, text)]
        self.findings: list[ConfigFinding] = []
        more = [root for root in environ.get(ROOTS, "").split(os.pathsep) if os.path.isabs(root)]
        self._roots = [os.path.realpath(root) for root in (os.path.dirname(file), *more)]

    def follow(self, raw: Any) -> Any:
        """`raw` with every include in its place; null where one cannot be followed."""
        return self._fill(raw, (), (self.parts[0].file,)) if KEY in self.parts[0].text else raw

    def _fill(self, value: Any, at: Path, chain: tuple[str, ...]) -> Any:
        if isinstance(value, list):
            return [self._fill(one, (*at, index), chain) for index, one in enumerate(value)]
        if not isinstance(value, dict):
            return value
        own = {key: self._fill(one, (*at, key), chain) for key, one in value.items() if key != KEY}
        if KEY not in value:
            return own
        try:
            made = self._include(value[KEY], at, chain)
            if own and not isinstance(made, dict):
                raise _Unreadable("what stands beside it needs an object in the file", "")
        except _Unreadable as why:
            message, hint = why.args
            self.findings.append(ConfigFinding(at, f"{KEY}: {message}", hint))
            return None
        return join_layers(made, own) if own else made

    def _include(self, named: Any, at: Path, chain: tuple[str, ...]) -> Any:
        names = [named] if isinstance(named, str) else named
        if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
            raise _Unreadable("the name of a file is needed, or a list of names", "")
        made: Any = {}
        for name in names:
            found = self._read(name, at, chain)
            made = join_layers(made, found) if len(names) > 1 else found
        return made

    def _read(self, name: str, at: Path, chain: tuple[str, ...]) -> Any:
        file = os.path.normpath(os.path.join(os.path.dirname(chain[-1]), name))
        real = os.path.realpath(file) if "\0" not in name else ""
        if not any(os.path.commonpath((root, real)) == root for root in self._roots if real):
            hint = f"put it there, or name its folder in {ROOTS}"
            raise _Unreadable(f"{file!r} is outside of the config's folder", hint)
        if real in [os.path.realpath(one) for one in chain]:
            raise _Unreadable(f"{file} includes itself", "")
        if len(chain) > MAX_LEVELS or len(self.parts) > MAX_FILES:
            raise _Unreadable(f"more than {MAX_LEVELS} levels or {MAX_FILES} files", "")
        data = files.read_file(real)
        text = files.decode_text(data) if isinstance(data, bytes) else None
        self.parts.append(ConfigPart(file, text if isinstance(text, str) else "", at))
        if not isinstance(text, str):
            wrong = data if isinstance(data, ConfigFinding) else text[0] if text else None
            message = wrong.message.replace("the config file", file) if wrong else f"there is no file {file}"
            raise _Unreadable(message, wrong.hint if wrong else "")
        try:
            found = relaxed.decode_json5(text)
        except ValueError:
            fault = lines.scan_json(text).fault
            where, what = (f":{fault.line}", fault.message) if fault else ("", "this is not valid JSON5")
            raise _Unreadable(f"{file}{where}: {what}", fault.hint if fault else "") from None
        return self._fill(found, at, (*chain, file))


def read_included(file: str, environ: Mapping[str, str]) -> tuple[Any, list[ConfigPart]]:
    """What a file and those that it includes say, unjudged, and all of them; ({}, []) if it cannot be read."""
    data = files.read_file(file)
    text = files.decode_text(data) if isinstance(data, bytes) else None
    try:
        raw = relaxed.decode_json5(text) if isinstance(text, str) else None
    except ValueError:
        raw = None
    if not isinstance(text, str) or not isinstance(raw, dict):
        return {}, []
    includer = ConfigIncluder(file, text, environ)
    return includer.follow(raw) or {}, includer.parts


def join_layers(lower: Any, upper: Any) -> Any:
    """Two layers as one: objects key by key, lists one after the other; of anything else the upper one counts."""
    if isinstance(lower, list) and isinstance(upper, list):
        return [*lower, *upper]
    if not isinstance(lower, dict) or not isinstance(upper, dict):
        return upper
    return {**lower, **{key: join_layers(lower[key], one) if key in lower else one for key, one in upper.items()}}


def locate_findings(findings: Sequence[ConfigFinding], parts: Sequence[ConfigPart]) -> tuple[Problem, ...]:
    """Findings as problems with file and line, the fatal ones first, else in the order of the files."""
    if not findings:
        return ()
    scans = [(part, lines.scan_json(part.text)) for part in parts]
    order = {part.file: number for number, part in reversed(list(enumerate(parts)))}
    made: list[Problem] = []
    for one in dict.fromkeys(findings):
        file, line = _locate(one.path, scans)
        made.append(Problem(show_path(one.path), one.message, file, line, hint=one.hint, fatal=one.fatal))
    return tuple(sorted(made, key=lambda problem: (not problem.fatal, order[problem.file], problem.line)))


def locate_key(path: Path, parts: Sequence[ConfigPart]) -> tuple[str, int]:
    """The file and the line of a key, or of the nearest thing around it."""
    return _locate(path, [(part, lines.scan_json(part.text)) for part in parts])


def _locate(path: Path, scans: Sequence[tuple[ConfigPart, lines.JsonScan]]) -> tuple[str, int]:
    """Of several files that say something of it the one that goes before the others: its own, then the last."""
    found = [(_depth(path, part, scan), part, scan) for part, scan in (scans[0], *reversed(scans[1:]))]
    depth, part, scan = max(found, key=lambda one: one[0])
    return part.file, scan.line(path[len(part.at) : max(depth, 0)])


def _depth(path: Path, part: ConfigPart, scan: lines.JsonScan) -> int:
    """How far into the path the file has something to say; -1: nowhere."""
    if path[: len(part.at)] != part.at:
        return -1
    inner = path[len(part.at) :]
    sizes: Iterator[int] = (size for size in range(len(inner), -1, -1) if inner[:size] in scan.nodes)
    return len(part.at) + next(sizes, -1)
