"""The config file in, `Settings` out. Tolerant: unknown keys warn; a broken edit falls back to the last good copy.

The normal path parses, fills in variables, converts and resolves. Lines are looked up only when there is something
to say.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from palinurus.config import files, lines, paths, relaxed
from palinurus.config.check import check_config, find_note
from palinurus.config.expand import collect_variables, expand_variables
from palinurus.config.findings import ConfigFinding, ConfigPlace
from palinurus.config.keypath import Path, show_path
from palinurus.config.resolve import resolve_settings
from palinurus.config.schema import Config, convert_config
from palinurus.config.settings import Settings
from palinurus.errors import ConfigError, Problem

FIX = "`pal config validate` lists every problem; `pal config explain KEY` tells what a key may be"

_NEAR = re.compile(r"near (\d+)")


class LoadedConfig(msgspec.Struct, frozen=True):
    """What a load gave. `raw` is the file as written, secrets included: it is left out of `repr`."""

    settings: Settings
    raw: dict[str, Any]
    problems: tuple[Problem, ...] = ()
    file: str = ""  # the config file, which may be missing or broken
    fallback: str = ""  # why the last good copy is in use; "" = it is not
    source: str = ""  # the file that `raw` was read from; "" = there is none, defaults apply

    def __repr__(self) -> str:
        return f"Loaded(file={self.file!r}, problems={len(self.problems)}, fallback={self.fallback!r})"

    __str__ = __repr__


class ConfigReading(NamedTuple):
    """One file read and judged. `settings` is None if a problem is fatal."""

    settings: Settings | None
    raw: dict[str, Any]
    problems: tuple[Problem, ...]
    data: bytes | None = None
    text: str = ""


def load_config(home: str, environ: Mapping[str, str]) -> LoadedConfig:
    """The config of `home`. Raises ConfigError if neither the file nor its last good copy can be used."""
    file = paths.locate_config_file(home)
    reading = read_config(file, home, environ)
    if reading.settings is not None:
        if reading.data is not None:
            _keep(file, reading.data)
        source = file if reading.data is not None else ""
        return LoadedConfig(reading.settings, reading.raw, reading.problems, file, fallback="", source=source)
    copy = paths.locate_last_good(file)
    good = read_config(copy, home, environ)
    if good.settings is None or good.data is None:
        raise ConfigError(reading.problems, fix=FIX)
    first = next(p for p in reading.problems if p.fatal)
    why = f"{file} cannot be used, running on the last good copy {copy}: {first}"
    return LoadedConfig(good.settings, good.raw, reading.problems, file, fallback=why, source=copy)


def read_config(file: str, home: str, environ: Mapping[str, str]) -> ConfigReading:
    """Read and judge one file. Never raises; a missing file is an empty config."""
    data = files.read_file(file)
    if isinstance(data, ConfigFinding):
        return ConfigReading(None, {}, (_problem(data, file, 0),))
    if data is None:
        return judge_config("{}", file, home, environ)._replace(text="")
    text = files.decode_text(data)
    if not isinstance(text, str):
        finding, offset = text
        line = data.count(b"\n", 0, offset) + 1
        return ConfigReading(None, {}, (_problem(finding, file, line),), data)
    return judge_config(text, file, home, environ)._replace(data=data)


def judge_config(text: str, file: str, home: str, environ: Mapping[str, str]) -> ConfigReading:
    """Parse, check and resolve `text`, which is or will be in `file`."""
    try:
        raw = relaxed.decode_json5(text)
    except ValueError as error:
        return ConfigReading(None, {}, (_syntax(text, file, error),), text=text)
    findings: list[ConfigFinding] = []
    env = collect_variables(raw, environ)
    value = expand_variables(raw, env, findings)
    here = ConfigPlace(home, environ, findings)
    config = _convert(value, here)
    settings = None
    if config is not None:
        version = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:12]
        settings = resolve_settings(config, here, version)
    if any(finding.fatal for finding in findings):
        settings = None
    problems = locate_findings(findings, text, file) if findings else ()
    return ConfigReading(settings, raw if isinstance(raw, dict) else {}, problems, text=text)


def _convert(value: Any, here: ConfigPlace) -> Config | None:
    report = check_config(value)
    here.findings.extend(report.wrong)
    if any(finding.fatal for finding in report.wrong):
        return None
    for unknown in report.wrong:
        _drop(value, unknown.path)
    here.findings.extend(report.late)
    return convert_config(value, here)


def _drop(value: Any, path: Path) -> None:
    for part in path[:-1]:
        value = value[part]
    del value[path[-1]]


def find_doubles(reading: ConfigReading, file: str) -> tuple[Problem, ...]:
    """Keys that stand twice. Parsers take the last one silently; `pal config validate` does not stay silent."""
    found = lines.scan_json(reading.text).doubles
    return tuple(
        Problem(show_path(path), "stands twice, the last one counts", file, line, hint="", fatal=False)
        for path, line in found
    )


def find_unread(reading: ConfigReading, file: str) -> tuple[Problem, ...]:
    """Keys of the file that are known and not acted on: whoever wrote them should know."""
    found: dict[Path, int] = {}
    for path, node in sorted(lines.scan_json(reading.text).nodes.items(), key=lambda item: item[1].line):
        around = any(path[:size] in found for size in range(len(path)))
        if path and not around and not find_note(path).acts:
            found[path] = node.line
    said, told = "is known, but not acted on", {problem.path for problem in reading.problems}
    made = (Problem(show_path(path), said, file, line, hint="", fatal=False) for path, line in found.items())
    return tuple(problem for problem in made if problem.path not in told)


def locate_findings(findings: list[ConfigFinding], text: str, file: str) -> tuple[Problem, ...]:
    """Findings as problems with lines, the fatal ones first, else in the order of the file."""
    scan = lines.scan_json(text)
    found = [_problem(finding, file, scan.line(finding.path)) for finding in dict.fromkeys(findings)]
    return tuple(sorted(found, key=lambda problem: (not problem.fatal, problem.line)))


def _problem(finding: ConfigFinding, file: str, line: int) -> Problem:
    return Problem(show_path(finding.path), finding.message, file, line, hint=finding.hint, fatal=finding.fatal)


def _syntax(text: str, file: str, error: Exception) -> Problem:
    fault = lines.scan_json(text).fault
    if fault is not None:
        return Problem(show_path(fault.path), fault.message, file, fault.line, hint=fault.hint)
    # The parser is stricter than the scanner in places; its message may quote a value, its position is safe.
    near = _NEAR.search(str(error.args[0] if error.args else ""))
    return Problem("", "this is not valid JSON5", file, lines.find_line(text, int(near[1]) if near else 0))


def _keep(file: str, data: bytes) -> None:
    """Refresh the last good copy. A home that cannot be written is the store's to complain about."""
    copy = paths.locate_last_good(file)
    if files.read_file(copy) == data:
        return
    try:
        files.replace_file(copy, data)
    except OSError:
        return
