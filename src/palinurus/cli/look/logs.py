"""`pal logs`: what the gateway logged, from the file it writes; followed by name, so that it goes on with the new file
when the old one is put aside. Reads only.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from typing import BinaryIO

import msgspec

from palinurus.cli.args import CommandParser, load_settings
from palinurus.cli.gateway.logs import LEVELS
from palinurus.cli.render import strip_controls
from palinurus.clock import Clock, SystemClock
from palinurus.config.paths import locate_log_file
from palinurus.errors import NotFound

PAUSE = 0.2


def run_logs(argv: list[str]) -> int:
    """Exit code 0; 130 after Ctrl-C. Raises NotFound where nothing was logged yet."""
    parser = CommandParser(
        "logs", "What the gateway logged (logging.file; logging.maxFileBytes and maxFiles bound it)."
    )
    parser.add_argument("-n", "--lines", type=int, default=100, help="how many lines of what is there (default: 100)")
    parser.add_argument("-f", "--follow", action="store_true", help="go on with what comes, over rotations")
    parser.add_argument("--level", choices=tuple(LEVELS), default="trace", help="only what is at least so important")
    parser.add_argument("--json", action="store_true", help="the lines as they are in the file")
    asked = parser.parse_args(argv)
    settings = load_settings(dict(os.environ)).settings
    file = settings.logging.file or locate_log_file(settings.home)
    if not os.path.isfile(file) and not asked.follow:
        raise NotFound(f"there is no log at {file}", fix="`pal gateway start` starts a gateway that writes one")
    least = LEVELS[asked.level]

    def show(line: bytes) -> None:
        text = line.decode("utf-8", "replace").rstrip("\n") if asked.json else format_line(line, least)
        if text:
            print(strip_controls(text), flush=True)

    for line in read_last(file, asked.lines):
        show(line)
    if asked.follow:
        asyncio.run(_follow(file, SystemClock(), show))
    return 0


def read_last(file: str, count: int) -> list[bytes]:
    """The last lines, also those of older files where the present one is short."""
    found: list[bytes] = []
    for number in range(100):
        try:
            with open(f"{file}.{number}" if number else file, "rb") as source:
                found = source.readlines()[-(count - len(found)) :] + found
        except OSError:
            break
        if len(found) >= count:
            break
    return found[-count:] if count > 0 else []


async def _follow(file: str, clock: Clock, show: Callable[[bytes], None]) -> None:
    async for line in follow_lines(file, clock):
        show(line)


async def follow_lines(file: str, clock: Clock) -> AsyncIterator[bytes]:
    """Whole lines that are added from now on. One file is read to its end before the next: none is left out."""
    source = _open(file)
    if source is not None:
        source.seek(0, os.SEEK_END)
    half = b""
    try:
        while True:
            data = source.readline() if source is not None else b""
            if data:
                half += data
                if half.endswith(b"\n"):
                    yield half
                    half = b""
                continue
            fresh = _open(file)
            if fresh is not None and (source is None or not os.path.sameopenfile(fresh.fileno(), source.fileno())):
                if source is not None:
                    for line in source.readlines():  # written between our last look and the change of names
                        yield line
                    source.close()
                source, half = fresh, b""
                continue
            if fresh is not None:
                fresh.close()
            await clock.sleep(PAUSE)
    finally:
        if source is not None:
            source.close()


def _open(file: str) -> BinaryIO | None:
    try:
        return open(file, "rb")
    except OSError:
        return None


def format_line(line: bytes, least: int) -> str:
    """One line of the file for people; "" for one that is less important than asked for."""
    try:
        row = msgspec.json.decode(line, type=dict)
    except msgspec.MsgspecError:
        return line.decode("utf-8", "replace").rstrip("\n")
    level = str(row.get("level", "")).replace("warning", "warn").replace("critical", "fatal")
    if LEVELS.get(level, least) < least:
        return ""
    trace = f"\n{row['trace']}" if row.get("trace") else ""
    return f"{row.get('time', '')} {level:<5} {row.get('subsystem', '')}: {row.get('message', '')}{trace}"
