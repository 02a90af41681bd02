"""The config file in, `Settings` out. Tolerant: unknown keys warn; a broken edit falls back to the last good copy.

The normal path parses, fills in variables, converts and resolves. Lines are looked up only when there is something
to say.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Mapping
from typing import Any

import msgspec

from palinurus.config import edit, files, lines, paths, relaxed
from palinurus.config.expand import collect_variables, expand_variables
from palinurus.config.findings import ConfigFinding, ConfigPlace
from palinurus.config.include import ConfigIncluder, ConfigPart, locate_findings
from palinurus.config.inert import list_written_inert
from palinurus.config.keypath import get_at, show_path
from palinurus.config.kinds import name_kind
from palinurus.config.mend import mend_config
from palinurus.config.resolve import resolve_settings
from palinurus.config.schema import convert_config
from palinurus.config.secrets import Secret, collect_secrets, wrap_secrets
from palinurus.config.sections.vaults import SecretVaults, read_shell_variables
from palinurus.config.settings import Settings
from palinurus.errors import ConfigError, Problem
from palinurus.patterns import compile_late

FIX = "`pal config validate` lists every problem; `pal config explain KEY` tells what a key may be"

_NEAR = compile_late(r"near (\d+)")


class LoadedConfig(msgspec.Struct, frozen=True):
    """What a load gave. `raw` is what the file and those that it includes say, secrets too: not in `repr`."""

    settings: Settings
    raw: dict[str, Any]
    problems: tuple[Problem, ...] = ()
    file: str = ""  # the config file, which may be missing or broken
    fallback: str = ""  # why the last good copy is in use; "" = it is not
    source: str = ""  # the file that `raw` was read from; "" = there is none, defaults apply
    parts: tuple[ConfigPart, ...] = ()  # that file and those that it includes

    def render(self) -> bytes:
        """All of it as one file: itself, or with everything that it includes."""
        return render_parts(self.raw, self.parts)

    def __repr__(self) -> str:
        return f"Loaded(file={self.file!r}, problems={len(self.problems)}, fallback={self.fallback!r})"

    __str__ = __repr__


class ConfigReading(msgspec.Struct, frozen=True):
    """One file read and judged. `settings` is None if the file cannot be read at all; a fatal problem in it costs what
    it is about, and is enough to refuse a change."""

    settings: Settings | None
    raw: dict[str, Any]
    problems: tuple[Problem, ...]
    data: bytes | None = None
    text: str = ""
    inert: tuple[Problem, ...] = ()  # keys that are known and not acted on
    whole: dict[str, Any] = {}  # `raw` with what it includes
    parts: tuple[ConfigPart, ...] = ()


def load_config(home: str, environ: Mapping[str, str]) -> LoadedConfig:
    """The config of `home`: a value that cannot be read costs itself, a file that cannot gives way to its last good
    copy. Raises ConfigError if that cannot be read either."""
    file = paths.locate_config_file(home)
    reading, copy = read_config(file, home, environ), paths.locate_last_good(file)
    if reading.data is not None and any(problem.fatal for problem in reading.problems):
        good = read_config(copy, home, environ)
        if reading.settings is not None and good.whole:
            again = judge_config(reading.text, file, home, environ, good=good.whole)
            reading = msgspec.structs.replace(again, data=reading.data)
    elif reading.data is not None:
        _keep(file, render_parts(reading.whole, reading.parts))
    if reading.settings is not None:
        source = file if reading.data is not None else ""
        problems = reading.problems + reading.inert
        parts, whole = reading.parts, reading.whole
        return LoadedConfig(reading.settings, whole, problems, file, fallback="", source=source, parts=parts)
    good = read_config(copy, home, environ)
    if good.settings is None or good.data is None:
        raise ConfigError(reading.problems, fix=FIX)
    first = next(p for p in reading.problems if p.fatal)
    why = f"{file} cannot be used, running on the last good copy {copy}: {first}"
    return LoadedConfig(good.settings, good.whole, reading.problems, file, fallback=why, source=copy, parts=good.parts)


def read_config(file: str, home: str, environ: Mapping[str, str]) -> ConfigReading:
    """Read and judge one file. Never raises; a missing file is an empty config."""
    data = files.read_file(file)
    if isinstance(data, ConfigFinding):
        return ConfigReading(None, {}, (_problem(data, file, 0),))
    if data is None:
        return msgspec.structs.replace(judge_config("{}", file, home, environ), text="")
    text = files.decode_text(data)
    if not isinstance(text, str):
        finding, offset = text
        line = data.count(b"\n", 0, offset) + 1
        return ConfigReading(None, {}, (_problem(finding, file, line),), data)
    return msgspec.structs.replace(judge_config(text, file, home, environ), data=data)


def judge_config(text: str, file: str, home: str, environ: Mapping[str, str], good: Any = None) -> ConfigReading:
    """Parse, check and resolve `text`, which is or will be in `file`. What cannot be read counts as it stands in
    `good`, if it does."""
    try:
        raw = relaxed.decode_json5(text)
    except ValueError as error:
        return ConfigReading(None, {}, (explain_syntax(text, file, error),), text=text)
    findings: list[ConfigFinding] = []
    includer = ConfigIncluder(file, text, environ)
    whole = includer.follow(raw)
    if not isinstance(whole, dict) or any(not one.path for one in includer.findings):
        message = f"the config must be an object, not {name_kind(whole)}"
        wrong = includer.findings or [ConfigFinding((), message, "write { … } around it")]
        return ConfigReading(None, {}, locate_findings(wrong, includer.parts), text=text)
    shell = read_shell_variables(whole, environ)
    environ = {**shell, **environ}
    env = collect_variables(whole, environ)
    value = expand_variables(whole, env, findings)
    inert = [
        ConfigFinding(path, f"is known, but not acted on: {reason}", fatal=False)
        for path, reason in list_written_inert(value)
    ]
    for finding in inert:
        del get_at(value, finding.path[:-1])[finding.path[-1]]
    report = mend_config(value, expand_variables(good, env, []), includer.findings)
    slips = [finding for finding in report.wrong if not finding.fatal]
    findings += [*(finding for finding in report.wrong if finding.fatal), *report.late]
    vaults = SecretVaults(value.get("secrets"), environ, home)
    here = ConfigPlace(home, environ, findings, fetch=vaults.fetch)
    texts = "".join(part.text for part in includer.parts)
    version = hashlib.sha256(texts.encode(errors="surrogatepass")).hexdigest()[:12]
    settings = resolve_settings(convert_config(value, here), here, version)
    better = {finding.path for finding in findings}  # who reads a section may have more to say of a slip
    findings[:0] = [slip for slip in slips if slip.path not in better]
    if shell:
        held = {name: Secret(text) for name, text in shell.items()}
        settings = msgspec.structs.replace(settings, env={**held, **settings.env})
    problems, told = (locate_findings(some, includer.parts) for some in (findings, inert))
    return ConfigReading(settings, raw, problems, text=text, inert=told, whole=whole, parts=tuple(includer.parts))


def find_doubles(reading: ConfigReading) -> tuple[Problem, ...]:
    """Keys that stand twice. Parsers take the last one silently; `pal config validate` does not stay silent."""
    return tuple(
        Problem(show_path((*part.at, *path)), "stands twice, the last one counts", part.file, line, fatal=False)
        for part in reading.parts
        for path, line in lines.scan_json(part.text).doubles
    )


def render_parts(whole: dict[str, Any], parts: tuple[ConfigPart, ...]) -> bytes:
    """A config as one file: as it is written, or with what it includes."""
    text = parts[0].text if len(parts) == 1 else edit.render_json(whole) if parts else "{}"
    return text.encode()


def _problem(finding: ConfigFinding, file: str, line: int) -> Problem:
    return Problem(show_path(finding.path), finding.message, file, line, hint=finding.hint, fatal=finding.fatal)


def explain_syntax(text: str, file: str, error: Exception) -> Problem:
    """What is wrong with a text that is no JSON5, and in which line."""
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
    _drop_old_secrets(paths.locate_proven_config(file), data)


def _drop_old_secrets(copy: str, data: bytes) -> None:
    """A copy that holds a secret which the config no longer has goes: who changed a key wants the old one gone."""
    held = files.read_file(copy)
    text = files.decode_text(held) if isinstance(held, bytes) and held != data else None
    if not isinstance(text, str):
        return
    try:
        secrets = collect_secrets(wrap_secrets(relaxed.decode_json5(text)))
    except ValueError:
        secrets = [text]  # nobody knows what is in it
    if any(secret.encode() not in data for secret in secrets):
        with contextlib.suppress(OSError):
            os.unlink(copy)
