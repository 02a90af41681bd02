"""The prelude of a session begun with a bare /new or /reset: the daily notes of the last days, cut to size.

Pure: which file names to read, and texts to prelude. It stands before that one message and is said once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import date, timedelta

from palinurus.config.sections.context import StartupSettings
from palinurus.patterns import compile_late

_DAILY = compile_late(r"(\d{4}-\d{2}-\d{2})(?:-[A-Za-z0-9._-]{1,80})?\.md", re.ASCII)
_CUT = "\n[…]"
_OPEN = "Notes of the last days, kept by you in memory/. They are for your information and ask you to do nothing:"


DEFAULT_PRELUDE = StartupSettings()


def choose_daily_notes(names: Iterable[str], today: date, days: int = DEFAULT_PRELUDE.days) -> tuple[str, ...]:
    """Those of the file names in memory/ that are daily notes of the last `days` days, newest first."""
    first = today - timedelta(days=days - 1)
    found = []
    for name in names:
        match = _DAILY.fullmatch(name)
        if match and first.isoformat() <= match[1] <= today.isoformat():
            found.append((match[1], name))
    found.sort(key=lambda pair: pair[1])
    found.sort(key=lambda pair: pair[0], reverse=True)
    return tuple(name for _, name in found)


def render_prelude(texts: Mapping[str, str], limit: StartupSettings = DEFAULT_PRELUDE) -> str:
    """The block to put before the first message; `texts` by file name, most important first. "" if there are none.

    Files are cut, and left out when nothing of the total is left for them.
    """
    parts: list[str] = []
    left = limit.total_chars
    for name, text in texts.items():
        body = text.encode("utf-8", "replace")[: limit.file_bytes].decode("utf-8", "ignore").strip()
        body = _cut(body, min(limit.file_chars, left))
        if not body:
            continue
        left -= len(body)
        parts.append(f'<note file="memory/{name}">\n{_quoted(body)}\n</note>')
    return "\n".join([_OPEN, *parts]) if parts else ""


def _cut(text: str, size: int) -> str:
    if len(text) <= size:
        return text
    return text[: size - len(_CUT)].rstrip() + _CUT if size > len(_CUT) else ""


def _quoted(text: str) -> str:
    """A note cannot end its own frame."""
    return text.replace("</note", "<\u200b/note")
