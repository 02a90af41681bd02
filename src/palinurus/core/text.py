"""How the program cuts long text and writes numbers and times for people: one spelling each. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from typing import Any

CUT, BLANK = "…", "***"
_UNITS = ("B", "KB", "MB", "GB", "TB")
_SPANS = ((86_400, "d"), (3_600, "h"), (60, "m"))


def cut_end(text: str, most: int) -> str:
    """At most `most` characters; what was cut shows as "…"."""
    return text if len(text) <= most else text[: max(0, most - 1)].rstrip() + CUT


def cut_line(text: str, most: int) -> str:
    """The text as one line (blanks and breaks become one blank) of at most `most` characters."""
    return cut_end(" ".join(text[: most * 4 + 64].split()), most)


def cut_middle(text: str, most: int, mark: str = f"\n{CUT}\n", *, head: float = 2 / 3) -> str:
    """Beginning and end of a text that is longer than `most`, with `mark` between them; `head` is the first part."""
    if len(text) <= most:
        return text
    room = max(0, most - len(mark))
    front = int(room * head)
    back = room - front
    return text[:front] + mark + (text[-back:] if back else "")


def trim_heading(text: str) -> str:
    """The words of a Markdown heading without the marks and spaces that close it (`## Title ##`)."""
    whole = text.rstrip()
    words = whole.rstrip("#")
    return words.rstrip() if words[-1:].isspace() else whole


def normalize_breaks(text: str) -> str:
    """The text with one kind of line end."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def skip_pattern(pattern: re.Pattern[str], text: str, at: int) -> int:
    """The index after what `pattern` finds at `at`; `at` where it finds nothing."""
    found = pattern.match(text, at)
    return found.end() if found is not None else at


def format_tokens(count: float) -> str:
    """950, 12.3k, 1.2M."""
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{count / size:.1f}".removesuffix(".0") + unit
    return f"{count:.0f}"


def format_count(number: int, word: str) -> str:
    """So many of a thing whose plural has an s."""
    return f"{number} {word}{'' if number == 1 else 's'}"


def format_bytes(count: float) -> str:
    """17 B, 4.2 KB, 310 MB; steps of 1024."""
    for unit in _UNITS:
        if count < 1024 or unit == _UNITS[-1]:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError


def format_span(seconds: float) -> str:
    """0.3 s, 12 s, 4m, 3h 20m, 2d 4h: at most two units, the larger ones."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 and seconds % 1 else f"{seconds:.0f} s"
    for at, (size, unit) in enumerate(_SPANS):
        if seconds >= size:
            whole, rest = divmod(int(seconds), size)
            if at + 1 < len(_SPANS):
                lower, name = _SPANS[at + 1]
                return f"{whole}{unit} {rest // lower}{name}" if rest >= lower else f"{whole}{unit}"
            return f"{whole}{unit}"
    raise AssertionError


def format_dollars(amount: float) -> str:
    """$0.0042, $0.31, $12.40: two digits that say something."""
    return f"${amount:.2f}" if amount >= 0.1 or not amount else f"${amount:.4f}"


def to_datetime(ms: float, zone: tzinfo = UTC) -> datetime:
    """The moment of `ms` (milliseconds since the epoch), as a clock in `zone` shows it."""
    return datetime.fromtimestamp(ms / 1000, zone)


def repair_surrogates(text: str) -> str:
    """Every half of a surrogate pair, which UTF-8 cannot carry (JavaScript cuts emoji in two), becomes U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def blank_values(value: Any, hidden: Sequence[str]) -> Any:
    """A text without these, or a JSON value whose texts are; the same object where none of them is in it."""
    if isinstance(value, str):
        for one in hidden:
            value = value.replace(one, BLANK) if one in value else value
        return value
    if isinstance(value, dict):
        return {key: blank_values(one, hidden) for key, one in value.items()}
    return [blank_values(one, hidden) for one in value] if isinstance(value, list | tuple) else value
