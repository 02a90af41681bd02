"""The config file, watched: what changed, and whether that needs a restart. Reads; applies nothing.

A file that cannot be used is reported once and changes nothing. The differences are named by the settings they touch.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping

import msgspec
from msgspec.structs import replace

from palinurus.clock import Clock
from palinurus.config.declare import list_fields
from palinurus.config.include import ConfigPart
from palinurus.config.load import LoadedConfig, load_config
from palinurus.config.sections.gateway import GatewaySettings
from palinurus.config.settings import Settings
from palinurus.errors import ConfigError

log = logging.getLogger(__name__)

EVERY = 1.0  # seconds between two looks
LOOK_SECONDS = 0.2  # … whether a turn runs

# Settings whose reader asks for them at every request, so a new value acts at once.
LIVE = frozenset(f"gateway.{key.field}" for key in list_fields(GatewaySettings) if key.place in GatewaySettings.LIVE)
LIVE |= {"gateway.drain", "version"}


class ConfigReload(msgspec.Struct, frozen=True):
    """A new config. `restart`: the settings that act only after one; empty: all of it acts live."""

    loaded: LoadedConfig
    live: tuple[str, ...]
    restart: tuple[str, ...]


def list_differences(old: object, new: object, path: str = "", depth: int = 2) -> list[str]:
    """The names of the fields whose values differ, two levels deep."""
    if old == new:
        return []
    if depth and isinstance(old, msgspec.Struct) and type(old) is type(new):
        found: list[str] = []
        for name in old.__struct_fields__:
            here = f"{path}.{name}" if path else name
            found += list_differences(getattr(old, name), getattr(new, name), here, depth - 1)
        return found
    return [path]


def judge_config(running: Settings, loaded: LoadedConfig) -> ConfigReload:
    """What is new in `loaded`. Port and address stay those the command line or the start decided."""
    kept = replace(loaded.settings.gateway, bind=running.gateway.bind, port=running.gateway.port)
    fields = list_differences(running, replace(loaded.settings, gateway=kept))
    live = tuple(name for name in fields if name in LIVE)
    return ConfigReload(loaded, live, tuple(name for name in fields if name not in LIVE))


def apply_live_settings(running: Settings, new: Settings) -> Settings:
    """`running` with what acts live taken from `new`."""
    gateway = {name.partition(".")[2]: getattr(new.gateway, name.partition(".")[2]) for name in LIVE if "." in name}
    return replace(running, gateway=replace(running.gateway, **gateway))


async def watch_config(loaded: LoadedConfig, environ: Mapping[str, str], clock: Clock) -> ConfigReload:
    """Wait for a config that can be used and differs from the one that runs."""
    home, parts = loaded.settings.home, loaded.parts
    seen: object = ()  # nothing: the file may have been changed between being loaded and now
    while True:
        await clock.sleep(EVERY)
        stamp = _stamps(loaded.file, parts)
        if stamp == seen:
            continue
        await clock.sleep(loaded.settings.gateway.debounce)  # editors write in steps
        if _stamps(loaded.file, parts) != stamp:
            continue
        seen = stamp
        try:
            fresh = load_config(home, environ)
        except ConfigError as exc:
            log.error("the new config is not used: %s", exc)
            continue
        if fresh.fallback:
            log.error("the new config is not used: %s", next((p for p in fresh.problems if p.fatal), fresh.fallback))
            continue
        if fresh.parts != parts:  # it includes other files now: those count as seen, too
            parts, seen = fresh.parts, _stamps(loaded.file, fresh.parts)
        change = judge_config(loaded.settings, fresh)
        if change.live or change.restart:
            for problem in fresh.problems:
                log.warning("config: %s", problem)
            return change


def _stamps(file: str, parts: tuple[ConfigPart, ...]) -> dict[str, tuple[int, int, int] | None]:
    """How the file and those that it includes look from outside."""
    return {name: _stamp(name) for name in (file, *(part.file for part in parts))}


def _stamp(file: str) -> tuple[int, int, int] | None:
    try:
        about = os.stat(file)
    except OSError:
        return None
    return about.st_mtime_ns, about.st_size, about.st_ino


async def wait_for_turns(busy: Callable[[], object], seconds: float, clock: Clock, told: asyncio.Future[int]) -> None:
    """Until no turn runs, `seconds` have passed, or a signal came: a changed setting is no reason to cut an answer off.
    The gateway serves meanwhile."""
    end = clock.monotonic() + seconds
    while busy() and clock.monotonic() < end and not told.done():
        await asyncio.wait({told}, timeout=LOOK_SECONDS)
