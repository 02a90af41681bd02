"""Against crash loops: starts that did not end in order are counted, and a config that brings the gateway down again
and again gives way to the last one that ran well.

Two small files in the state directory: `gateway.starts`, and beside the config a copy that was proven by running.
At kill -9 a start stays counted; that is what the count is for.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Mapping

import msgspec

from palinurus.config import files, paths
from palinurus.config.load import LoadedConfig, read_config
from palinurus.files import write_whole_file

log = logging.getLogger(__name__)

FILE = "gateway.starts"
STARTS = 3  # starts without an orderly end …
WINDOW_MS = 300_000  # … in so many milliseconds are a loop
PROVEN_SECONDS = 60.0  # so long must a gateway run for its config to be called proven


def count_start(home: str, now: int) -> int:
    """Count this start, which may be the first in this home. Returns how many there were lately, this one included."""
    starts = [at for at in _starts(home) if now - WINDOW_MS < at <= now]
    with contextlib.suppress(OSError):  # what needs the home more, the token and the store, says what is wrong with it
        os.makedirs(home, mode=0o700, exist_ok=True)
        write_whole_file(os.path.join(home, FILE), msgspec.json.encode([*starts[-20:], now]), sync=False)
    return len(starts) + 1


def forget_starts(home: str) -> None:
    """It runs well, or it ended in order: what came before is forgotten."""
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(home, FILE))


def keep_proven_config(loaded: LoadedConfig) -> None:
    """This config ran well: keep a copy, with what it includes."""
    proven = paths.locate_proven_config(paths.locate_config_file(loaded.settings.home))
    try:
        data = loaded.render()
        if files.read_file(proven) != data:
            write_whole_file(proven, data, sync=False)
    except OSError as exc:
        log.warning("the config that runs could not be kept: %s", exc)


def choose_config(loaded: LoadedConfig, count: int, environ: Mapping[str, str]) -> LoadedConfig:
    """What to start with: what was loaded, or after too many bad starts the proven copy, if that is another."""
    if count <= STARTS:
        return loaded
    home = loaded.settings.home
    file = paths.locate_proven_config(paths.locate_config_file(home))
    now, then = loaded.render(), files.read_file(file)
    if then == now:
        log.error("start %d in five minutes, with a config that ran well before: the cause is elsewhere", count)
    if not isinstance(then, bytes) or then == now:
        return loaded
    good = read_config(file, home, environ)
    if good.settings is None:
        return loaded
    why = f"{count - 1} starts in five minutes did not last; running on the config that did, {file}"
    whole, parts = good.whole, good.parts
    return LoadedConfig(good.settings, whole, loaded.problems, loaded.file, fallback=why, source=file, parts=parts)


def _starts(home: str) -> list[int]:
    try:
        with open(os.path.join(home, FILE), "rb") as handle:
            return msgspec.json.decode(handle.read(4096), type=list[int])
    except (OSError, msgspec.MsgspecError):
        return []
