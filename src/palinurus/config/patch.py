"""Set or remove one key of the config file. Strict and atomic: the whole result is judged before a byte is written.

A change may not add a problem: unknown keys and wrong values are refused, while a file that was broken before can be
repaired step by step. The text is edited in place where that is safe, so that comments survive.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from palinurus.config import edit, files, lines, paths, relaxed
from palinurus.config.explain import needs_restart
from palinurus.config.keypath import Path, has_at, parse_path, settle_path, show_path
from palinurus.config.load import ConfigReading, judge_config, read_config
from palinurus.errors import BadRequest, ConfigError, DiskFull, NotFound, Problem, StateError, StateUnwritable


class KeyChange(msgspec.Struct, frozen=True):
    """What a change did."""

    file: str
    key: str
    line: int = 0  # where the key stands now; 0 = nowhere
    changed: bool = True
    comments_lost: bool = False  # the text could not be edited in place and was written anew
    restart: bool = False  # takes effect only when the gateway starts again
    problems: tuple[Problem, ...] = ()  # what was wrong before and still is


def set_config_key(home: str, environ: Mapping[str, str], key: str, value: Any) -> KeyChange:
    """Put `value` at `key`. Raises BadRequest (no such path), ConfigError (would not be valid), StateUnwritable."""
    return _change(
        home, environ, key, lambda raw, path: edit.put_value(raw, path, value), lambda t, p: edit.put_text(t, p, value)
    )


def unset_config_key(home: str, environ: Mapping[str, str], key: str) -> KeyChange:
    """Remove `key`. Raises NotFound if it is not in the file, else as `set_key`."""
    return _change(home, environ, key, _removed, edit.remove_text)


def _removed(raw: Any, path: Path) -> Any:
    if not has_at(raw, path):
        raise NotFound(
            f"{show_path(path)} is not set in the config file", fix="`pal config explain` tells what applies"
        )
    return edit.remove_value(raw, path)


def _change(home: str, environ: Mapping[str, str], key: str, apply: Any, apply_text: Any) -> KeyChange:
    file = paths.locate_config_file(home)
    try:
        path = parse_path(key)
    except ValueError as error:
        raise BadRequest(str(error)) from None
    with lock_config(home, file):
        before = read_config(file, home, environ)
        if before.problems and not before.text and before.settings is None:
            raise ConfigError(before.problems, fix="put the file right by hand first")
        raw = decode_reading(before, file)
        path = settle_path(path, raw)
        try:
            wanted = apply(raw, path)
        except ValueError as error:
            raise BadRequest(f"{show_path(path)}: {error}") from None
        if wanted == raw and type(wanted) is type(raw) and before.data is not None:
            return KeyChange(
                file, show_path(path), lines.scan_json(before.text).line(path), False, restart=needs_restart(path)
            )
        text, lost = _text(before, path, wanted, apply_text)
        after = judge_config(text, file, home, environ)
        _refuse(before, after, path)
        if before.data is not None:
            files.replace_file(paths.locate_backup(file), before.data)
        files.replace_file(file, text.encode(), crash=True)
    line = lines.scan_json(text).line(path) if has_at(wanted, path) else 0
    return KeyChange(
        file, show_path(path), line, True, lost, needs_restart(path), tuple(p for p in after.problems if p.fatal)
    )


def decode_reading(before: ConfigReading, file: str) -> Any:
    """What the file says, variables as written. Raises ConfigError if it cannot be read as JSON5."""
    if before.data is None:
        return {}
    try:
        return relaxed.decode_json5(before.text)
    except ValueError:
        raise ConfigError(
            before.problems, fix=f"put {file} right by hand first; it cannot be edited like this"
        ) from None


def _text(before: ConfigReading, path: Path, wanted: Any, apply_text: Any) -> tuple[str, bool]:
    """The new text, and whether comments went missing. Raises BadRequest for what JSON cannot hold."""
    try:
        text = edit.render_json(wanted) + "\n"
    except UnicodeEncodeError:
        text = ""
    if not says_same(text, wanted):
        raise BadRequest(f"{show_path(path)[:80]!r}: this value cannot be written as JSON")
    if before.data is None:
        return text, False
    edited = apply_text(before.text, path)
    if edited is not None and says_same(edited, wanted):
        return edited, False
    return text, lines.scan_json(before.text).comments


def says_same(text: str, wanted: Any) -> bool:
    """Does this text say `wanted`?"""
    try:
        return bool(relaxed.decode_json5(text) == wanted)
    except ValueError:
        return False


def _refuse(before: ConfigReading, after: ConfigReading, path: Path) -> None:
    """Raise if the change brings a problem that was not there. Lines move, so they are not compared."""
    old = {(p.path, p.message) for p in before.problems}
    new = tuple(p for p in after.problems if (p.path, p.message) not in old)
    mine = show_path(path)
    bad = tuple(p for p in new if p.fatal or p.path == mine or p.path.startswith((mine + ".", mine + "[")))
    if bad:
        raise ConfigError(tuple(p._replace(line=0, file="") for p in bad), fix="nothing was written")


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
