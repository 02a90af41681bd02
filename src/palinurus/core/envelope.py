"""What is put around a person's text before the model reads it: who speaks in a group, what was said before, what is
answered, which files came along. Pure.

Names and other people's words come from outside: they are made inert and cannot look like a line of ours.
"""

from __future__ import annotations

from collections.abc import Sequence

from palinurus.core.untrusted import clean_label, make_inert

CONTEXT_HEADING = "[Said in this chat since your last answer, for context]"
MESSAGE_HEADING = "[The message for you]"
MAX_EARLIER = 1_000  # characters of one earlier message
MAX_QUOTE = 500
MAX_NAME = 60


def prefix_speaker(name: str, text: str) -> str:
    """`Ann: text`; further lines are indented, so that nobody can write a line in another's name."""
    return f"{clean_label(name, MAX_NAME) or 'somebody'}: {_hung(text)}"


def frame_earlier_message(name: str, text: str) -> str:
    """One message of others, as context."""
    cut = text if len(text) <= MAX_EARLIER else f"{text[: MAX_EARLIER - 1]}…"
    return prefix_speaker(name, make_inert(cut).strip())


def frame_group_title(title: str) -> str:
    """Which group it is. Its title is its members' to choose, so it never stands in the system prompt."""
    return f"[In the group “{clean_label(title, MAX_NAME)}”]" if title.strip() else ""


def frame_quote(sender: str, text: str) -> str:
    """What the message answers."""
    cut = text if len(text) <= MAX_QUOTE else f"{text[: MAX_QUOTE - 1]}…"
    whom = f" {clean_label(sender, MAX_NAME)}" if sender.strip() else ""
    return f"[Answers{whom}: “{' '.join(make_inert(cut).split())}”]" if text.strip() else ""


def frame_attachment(name: str, mime: str, path: str, size: int) -> str:
    """A file that came along."""
    return (
        f"[file {clean_label(name, 120) or 'without a name'} ({clean_label(mime, MAX_NAME)}, {_sized(size)}) at {path}]"
    )


def frame_message(text: str, heads: Sequence[str], tails: Sequence[str], before: Sequence[str]) -> str:
    """The whole message. Without anything around it, the text as it is."""
    whole = "\n".join(part for part in (*heads, text, *tails) if part)
    return "\n".join((CONTEXT_HEADING, *before, "", MESSAGE_HEADING, whole)) if before else whole


def _sized(size: int) -> str:
    return f"{size} bytes" if size < 10_000 else f"{size // 1000:,} kB"


def _hung(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\n", "\n  ")
