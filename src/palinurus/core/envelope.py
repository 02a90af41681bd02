"""What is put around a person's text before the model reads it: who speaks in a group, what was said before, what is
answered, which files came along. Pure.

Names and other people's words come from outside: they are made inert and cannot look like a line of ours.
"""

from __future__ import annotations

from collections.abc import Sequence

from palinurus.core.untrusted import inert, label

BEFORE = "[Said in this chat since your last answer, for context]"
NOW = "[The message for you]"
LINE = 1_000  # characters of one earlier message
QUOTE = 500
NAME = 60


def spoken(name: str, text: str) -> str:
    """`Ann: text`; further lines are indented, so that nobody can write a line in another's name."""
    return f"{label(name, NAME) or 'somebody'}: {_hung(text)}"


def earlier(name: str, text: str) -> str:
    """One message of others, as context."""
    cut = text if len(text) <= LINE else f"{text[: LINE - 1]}…"
    return spoken(name, inert(cut).strip())


def group(title: str) -> str:
    """Which group it is. Its title is its members' to choose, so it never stands in the system prompt."""
    return f"[In the group “{label(title, NAME)}”]" if title.strip() else ""


def quoted(sender: str, text: str) -> str:
    """What the message answers."""
    cut = text if len(text) <= QUOTE else f"{text[: QUOTE - 1]}…"
    whom = f" {label(sender, NAME)}" if sender.strip() else ""
    return f"[Answers{whom}: “{' '.join(inert(cut).split())}”]" if text.strip() else ""


def attached(name: str, mime: str, path: str, size: int) -> str:
    """A file that came along."""
    return f"[file {label(name, 120) or 'without a name'} ({label(mime, NAME)}, {_sized(size)}) at {path}]"


def framed(text: str, heads: Sequence[str], tails: Sequence[str], before: Sequence[str]) -> str:
    """The whole message. Without anything around it, the text as it is."""
    whole = "\n".join(part for part in (*heads, text, *tails) if part)
    return "\n".join((BEFORE, *before, "", NOW, whole)) if before else whole


def _sized(size: int) -> str:
    return f"{size} bytes" if size < 10_000 else f"{size // 1000:,} kB"


def _hung(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\n", "\n  ")
