"""Change the config file: one key, a merge patch, or the whole.

Strict and atomic: the result is judged before a byte is written, and a change may not add a problem, while a file that
was broken before can be repaired step by step.

Whoever changes the whole names the version it has read (`base`); if the file is another by now, nothing is written.
Only what differs is changed in the text, so that comments survive.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, TypeAlias

import msgspec

from palinurus.config import edit, files, lines, paths, relaxed
from palinurus.config.explain import tell_change
from palinurus.config.include import KEY
from palinurus.config.keypath import Path, has_at, parse_path, settle_path, show_path
from palinurus.config.load import ConfigReading, explain_syntax, judge_config, read_config
from palinurus.config.secrets import LostSecret, restore_secrets
from palinurus.errors import (
    BadRequest,
    ConfigError,
    DiskFull,
    NotFound,
    PalinurusError,
    Problem,
    StateError,
    StateUnwritable,
)

GONE = object()
ANY_VERSION = "any"  # this very object as a base: whatever version is there


class KeyChange(msgspec.Struct, frozen=True):
    """What a change of one key did."""

    file: str
    key: str
    line: int = 0  # where the key stands now; 0 = nowhere
    changed: bool = True
    comments_lost: bool = False  # the text could not be edited in place and was written anew
    when: str = ""  # what it does to a running gateway, in words
    problems: tuple[Problem, ...] = ()  # what was wrong before and still is


def set_config_key(home: str, environ: Mapping[str, str], key: str, value: Any) -> KeyChange:
    """Put `value` at `key`. Raises BadRequest (no such path), ConfigError (would not be valid), StateUnwritable."""
    return _change_key(home, environ, key, value)


def unset_config_key(home: str, environ: Mapping[str, str], key: str) -> KeyChange:
    """Remove `key`. Raises NotFound if it is not in the file, else as `set_config_key`."""
    return _change_key(home, environ, key, GONE)


def _change_key(home: str, environ: Mapping[str, str], key: str, value: Any) -> KeyChange:
    file = paths.locate_config_file(home)
    try:
        path = parse_path(key)
    except ValueError as error:
        raise BadRequest(str(error)) from None
    with lock_config(home, file):
        before = read_config(file, home, environ)
        raw = decode_reading(before, file)
        path = settle_path(path, raw)
        wanted = _with_key(raw, path, value)
        name = show_path(path)
        if wanted == raw and type(wanted) is type(raw) and before.data is not None:
            return KeyChange(file, name, lines.scan_json(before.text).line(path), False)
        text = _text(before, [(path, value)], wanted, f"{name[:80]!r}: this value cannot be written as JSON")
        after = _replace(before, text, [path], file=file, home=home, environ=environ)
    scan = lines.scan_json(text)
    lost = before.data is not None and lines.scan_json(before.text).comments and not scan.comments
    line = scan.line(path) if has_at(wanted, path) else 0
    return KeyChange(
        file,
        name,
        line,
        True,
        comments_lost=lost,
        when=tell_change(path, after.settings.gateway.reload if after.settings else ""),
        problems=tuple(p for p in after.problems if p.fatal),
    )


def _with_key(raw: Any, path: Path, value: Any) -> Any:
    if value is GONE:
        if not has_at(raw, path):
            fix = "`pal config explain` tells what applies"
            raise NotFound(f"{show_path(path)} is not set in the config file", fix=fix)
        return edit.remove_value(raw, path)
    try:
        return edit.put_value(raw, path, value)
    except ValueError as error:
        raise BadRequest(f"{show_path(path)}: {error}") from None


def decode_reading(before: ConfigReading, file: str) -> Any:
    """What the file says, variables as written. Raises ConfigError if it cannot be read as JSON5."""
    if before.problems and not before.text and before.settings is None:
        raise ConfigError(before.problems, fix="put the file right by hand first")
    if before.data is None:
        return {}
    try:
        return relaxed.decode_json5(before.text)
    except ValueError:
        fix = f"put {file} right by hand first; it cannot be edited like this"
        raise ConfigError(before.problems, fix=fix) from None


def says_same(text: str, wanted: Any) -> bool:
    """Does this text say `wanted`?"""
    try:
        return bool(relaxed.decode_json5(text) == wanted)
    except ValueError:
        return False


def _replace(
    before: ConfigReading, text: str, changed: list[Path], *, file: str, home: str, environ: Mapping[str, str]
) -> ConfigReading:
    """Judge the new text and put it in place, whole; the old one becomes the backup."""
    after = judge_config(text, file, home, environ)
    _refuse(before, after, changed)
    if before.data is not None:
        files.replace_file(paths.locate_backup(file), before.data)
    files.replace_file(file, text.encode(), crash=True)
    return after


@contextlib.contextmanager
def lock_config(home: str, file: str) -> Iterator[None]:
    """One writer at a time, in this process and others. What the disk refuses becomes StateUnwritable."""
    try:
        os.makedirs(home, 0o700, exist_ok=True)
        lock = os.open(file + ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _unwritable(file, error) from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    except OSError as error:
        raise _unwritable(file, error) from None
    finally:
        os.close(lock)


def _unwritable(file: str, error: OSError) -> StateError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(f"{file} is unchanged: {error.strerror}", fix="free some space and try again")
    fix = f"check owner and mode of {os.path.dirname(file)}"
    return StateUnwritable(f"{file} is unchanged, it cannot be written: {error.strerror}", fix=fix)


class StaleConfig(PalinurusError):
    """The file is not the one the change was made from."""


class ConfigChange(msgspec.Struct, frozen=True):
    """What was done. `restart` are the changed keys that take effect only when the gateway starts again."""

    file: str
    raw: dict[str, Any]
    hash: str
    changed: tuple[str, ...] = ()
    restart: tuple[str, ...] = ()


Veto: TypeAlias = Callable[[tuple[str, ...]], None]


def _none(changed: tuple[str, ...]) -> None:
    """Everything may change."""


def digest_config(data: bytes | None) -> str:
    """Which version of the file this is."""
    return hashlib.sha256(data or b"").hexdigest()


def replace_config(
    home: str, environ: Mapping[str, str], base: str | None, text: str, *, veto: Veto = _none
) -> ConfigChange:
    """Make `text` (JSON5) the config; `veto` may raise for the keys that would change.

    Raises Stale, BadRequest (no JSON5), ConfigError (not valid), StateError.
    """
    return _rewrite(home, environ, base, lambda raw: restore_secrets(_object(text), raw), given=text, veto=veto)


def merge_config(
    home: str,
    environ: Mapping[str, str],
    base: str | None,
    text: str,
    whole: Collection[str] = (),
    *,
    veto: Veto = _none,
) -> ConfigChange:
    """Lay `text` (a JSON merge patch) over the config; objects at the paths in `whole` are replaced. Raises as
    `replace` does."""
    make = lambda raw: _merged(raw, restore_secrets(_object(text), raw), frozenset(whole))  # noqa: E731
    return _rewrite(home, environ, base, make, given="", veto=veto)


def adjust_config(home: str, environ: Mapping[str, str], make: Callable[[Any], Any]) -> ConfigChange:
    """Make what `make` makes of the config the config, whatever version is there. Raises as `replace` does, and
    whatever `make` raises; then nothing is written."""
    return _rewrite(home, environ, ANY_VERSION, make, given="")


def _object(text: str) -> dict[str, Any]:
    try:
        found = relaxed.decode_json5(text)
    except ValueError as exc:
        problem = explain_syntax(text, "", exc)
        raise BadRequest(f"line {problem.line}: {problem.message}", fix=problem.hint) from None
    if not isinstance(found, dict):
        raise BadRequest("raw must be an object")
    return found


def _merged(raw: Any, change: Any, whole: frozenset[str], path: Path = ()) -> Any:
    if not isinstance(change, dict) or show_path(path) in whole:
        return change
    made = dict(raw) if isinstance(raw, dict) else {}
    for key, value in change.items():
        if value is None:
            made.pop(key, None)
        else:
            made[key] = _merged(made.get(key), value, whole, (*path, key))
    return made


def _rewrite(
    home: str,
    environ: Mapping[str, str],
    base: str | None,
    make: Callable[[Any], Any],
    given: str,
    veto: Veto = _none,
) -> ConfigChange:
    file = paths.locate_config_file(home)
    with lock_config(home, file):
        before = read_config(file, home, environ)
        if base is None and before.data is not None:
            raise StaleConfig("config base hash required; re-run config.get and retry")
        if base is not ANY_VERSION and base not in (None, digest_config(before.data)):
            raise StaleConfig("config changed since last load; re-run config.get and retry")
        raw = decode_reading(before, file)
        try:
            wanted = make(raw)
        except LostSecret as place:
            raise BadRequest(f"{place}: there is no stored secret here to keep; send the value") from None
        changes = list(_changes(raw, wanted))
        if not changes and before.data is not None:
            return ConfigChange(file, wanted, digest_config(before.data))
        veto(tuple(show_path(leaf) for path, value in changes for leaf in _leaves(path, value)))
        text = _text(before, changes, wanted, "these values cannot be written as JSON", given=given)
        after = _replace(before, text, [path for path, _ in changes], file=file, home=home, environ=environ)
    mode = after.settings.gateway.reload if after.settings else ""
    names = tuple(show_path(path) for path, _ in changes)
    return ConfigChange(
        file,
        wanted,
        digest_config(text.encode()),
        names,
        restart=tuple(show_path(p) for p, _ in changes if tell_change(p, mode).startswith("needs")),
    )


def _changes(old: Any, new: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """The smallest places that differ, with what is to stand there; GONE: nothing."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in old:
            if key not in new:
                yield (*path, key), GONE
        for key, value in new.items():
            if key not in old:
                yield (*path, key), value
            else:
                yield from _changes(old[key], value, (*path, key))
    elif old != new or type(old) is not type(new):
        yield path, new


def _leaves(path: Path, value: Any) -> Iterator[Path]:
    """The key paths of a value that is new at `path`; a list counts as one, and as an include if it holds one."""
    if not isinstance(value, dict) or not value:
        yield (*path, KEY) if KEY in str(value) else path
        return
    for key, below in value.items():
        yield from _leaves((*path, key), below)


def _text(before: ConfigReading, changes: list[tuple[Path, Any]], wanted: Any, refusal: str, given: str = "") -> str:
    """The text to write: what the client wrote if it has comments of its own, else the old one, edited. Raises
    BadRequest (`refusal`) for what JSON cannot hold."""
    if given and lines.scan_json(given).comments and says_same(given, wanted):
        return given
    try:
        fresh = edit.render_json(wanted) + "\n"
    except UnicodeEncodeError:
        fresh = ""
    if not says_same(fresh, wanted):
        raise BadRequest(refusal)
    text: str | None = before.text if before.data is not None else None
    for path, value in changes:
        if text is not None:
            text = edit.remove_text(text, path) if value is GONE else edit.put_text(text, path, value)
    return text if text is not None and says_same(text, wanted) else fresh


def _refuse(before: ConfigReading, after: ConfigReading, changed: list[Path]) -> None:
    """Raise if the change brings a problem: a fatal one anywhere, any at the places that changed."""
    old = {(p.path, p.message) for p in before.problems}
    places = tuple(show_path(path) for path in changed)
    bad = tuple(
        msgspec.structs.replace(p, line=0, file="")
        for p in after.problems
        if (p.path, p.message) not in old
        and (p.fatal or _below(p, places) or any(f"{place}.".startswith(f"{p.path}.") for place in places))
    )
    if bad:
        raise ConfigError(bad, fix="nothing was written")


def _below(problem: Problem, places: tuple[str, ...]) -> bool:
    return any(problem.path == place or problem.path.startswith((place + ".", place + "[")) for place in places)
