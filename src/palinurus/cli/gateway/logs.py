"""Logging as the gateway does it: one line per event on stderr, control characters escaped, secrets replaced.

Lines for people, or (`logging.consoleStyle: "json"`) one JSON object each for programs.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from typing import TextIO

import msgspec

from palinurus.config.sections.session import LoggingSettings, compile_pattern
from palinurus.patterns import compile_late

_SHAPES = compile_late(r"(?i)(bearer\s+)[\w.~+/=-]{8,}|\b(?:sk|pk|ghp|gho|xox[abpr]|AIza)[-_]?[\w-]{16,}")
_CONTROL = compile_late(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
LEVELS = {
    "silent": logging.CRITICAL + 10,
    "fatal": logging.CRITICAL,
    "error": logging.ERROR,
    "warn": logging.WARNING,
    "info": logging.INFO,
    "debug": logging.DEBUG,
    "trace": logging.DEBUG,
}
USUAL = LoggingSettings()
MIN_SECRET = 6  # shorter values would blank ordinary words


class ScrubbingFormatter(logging.Formatter):
    """A line that can be shown to anyone."""

    def __init__(self, secrets: Iterable[str], rules: LoggingSettings = USUAL) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s", "%H:%M:%S")
        known = sorted({s for s in secrets if len(s) >= MIN_SECRET}, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, known))) if known else None

        self._guess = rules.redact != "off"
        self._patterns = [compile_pattern(word) for word in rules.patterns]

    def format(self, record: logging.LogRecord) -> str:
        return self.scrub(super().format(record))

    def scrub(self, text: str) -> str:
        """`text` on one line and without secrets."""
        if self._known is not None:
            text = self._known.sub("***", text)
        if self._guess:
            text = _SHAPES.sub(lambda m: (m[1] or "") + "***", text)
            for pattern in self._patterns:
                text = pattern.sub(_blank, text)
        return _CONTROL.sub(lambda m: "\\n" if m[0] == "\n" else f"\\x{ord(m[0]):02x}", text)


def _blank(found: re.Match[str]) -> str:
    """Without the last group that says something; without all of it if there is none."""
    secret = next((group for group in reversed(found.groups()) if group), found[0])
    return found[0].replace(secret, "***") if secret else found[0]


class JsonLogFormatter(ScrubbingFormatter):
    """The same as a JSON object: time, level, subsystem, message, and the traceback if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        message = record.getMessage()
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "subsystem": record.name.removeprefix("palinurus."),
            "message": self.scrub(message),
        }
        if record.exc_info:
            line["trace"] = self.scrub(self.formatException(record.exc_info))
        # Half a surrogate pair, which models do produce, cannot be written.
        clean = {name: text.encode("utf-8", "replace").decode() for name, text in line.items()}
        named = msgspec.json.encode({"subsystem": clean["subsystem"]}).decode()
        # Where OpenClaw's own log view looks for level and subsystem.
        meta = {"logLevelName": record.levelname.replace("WARNING", "WARN"), "name": named, "date": clean["time"]}
        return msgspec.json.encode({**clean, "_meta": meta}).decode()


class _SteadyStream(logging.StreamHandler[TextIO]):
    """A terminal that was closed or a disk that is full costs a line, not a traceback for each line."""

    def handleError(self, record: logging.LogRecord) -> None:
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)


class _SteadyFile(RotatingFileHandler):
    """Told once when lines are lost; tried again with the next one."""

    lost = False
    alone = False  # no old file is kept

    def doRollover(self) -> None:
        super().doRollover()
        if self.alone:
            with contextlib.suppress(OSError):
                os.unlink(f"{self.baseFilename}.1")

    def emit(self, record: logging.LogRecord) -> None:
        lost, self.lost = self.lost, False
        super().emit(record)
        if self.lost and not lost:
            print(f"{self.baseFilename} cannot be written; lines are lost until it can", file=sys.stderr)

    def handleError(self, record: logging.LogRecord) -> None:
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)
            return
        self.lost = True
        with contextlib.suppress(OSError):
            if (stream := self.stream) is not None:
                self.stream = None
                stream.close()  # what it could not write is not kept; the next line opens it anew


def start_logging(
    level: int,
    secrets: Iterable[str],
    stream: TextIO | None = None,
    *,
    structured: bool = False,
    file: str = "",
    rules: LoggingSettings = USUAL,
    flags: tuple[str, ...] = (),
) -> None:
    """Log to `stream` (stderr) from here on, and as `rules` has it as JSON lines to `file`, which is kept small.
    `flags`: parts of the program of which everything is logged (diagnostics.flags)."""
    known = list(secrets)
    shown = _SteadyStream(stream or sys.stderr)
    shown.setFormatter((JsonLogFormatter if structured else ScrubbingFormatter)(known, rules))
    shown.setLevel(level)
    handlers: list[logging.Handler] = [shown]
    if file:
        with contextlib.suppress(OSError):
            os.makedirs(os.path.dirname(file), mode=0o700, exist_ok=True)
        # Without an old file to move to, the handler would let the log grow: one is kept and removed below.
        size, count = rules.file_bytes, max(1, rules.files)
        kept = _SteadyFile(file, maxBytes=size, backupCount=count, encoding="utf-8", errors="replace", delay=True)
        kept.alone = not rules.files
        kept.setFormatter(JsonLogFormatter(known, rules))
        kept.setLevel(LEVELS[rules.level])
        handlers.append(kept)
    root = logging.getLogger()
    for old in root.handlers:
        if isinstance(old, RotatingFileHandler):
            old.close()
    root.handlers[:] = handlers
    root.setLevel(min(handler.level for handler in handlers))
    parts = [f"palinurus.{flag.strip(' .*')}".strip(".") for flag in flags]
    if parts:
        root.setLevel(logging.DEBUG)
        for handler in handlers:
            handler.addFilter(FlagFilter(handler.level, parts))
            handler.setLevel(logging.DEBUG)


class FlagFilter(logging.Filter):
    """Lets through what is important enough, and all that parts with a flag say."""

    def __init__(self, level: int, parts: list[str]) -> None:
        super().__init__()
        self._level = level
        self._parts = tuple(f"{part}." for part in parts)

    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno >= self._level or f"{record.name}.".startswith(self._parts)
