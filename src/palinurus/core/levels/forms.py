"""The directives: their names, and what may follow each. One table, read by the parser and by the menus.

Knows spellings only; what a directive does is `inbox/commands`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

from palinurus.core.levels import words

Takes: TypeAlias = Literal["word", "model", "options", "nothing"]

# Modes of the queue and the other words people use for them.
QUEUE_WORDS: dict[str, str] = {
    "steer": "steer",
    "steering": "steer",
    "queue": "steer",
    "queued": "steer",
    "followup": "followup",
    "followups": "followup",
    "steerbacklog": "followup",
    "steer+backlog": "followup",
    "collect": "collect",
    "coalesce": "collect",
    "interrupt": "interrupt",
    "interrupts": "interrupt",
    "abort": "interrupt",
}
QUEUE_DROPS: tuple[str, ...] = ("old", "new", "summarize")
# The words that ask instead of setting.
QUERY_WORDS: frozenset[str] = frozenset({"status"})


class DirectiveForm(msgspec.Struct, frozen=True):
    """One directive. `names[0]` is what menus show; `known` maps collapsed words to their meaning."""

    name: str
    names: tuple[str, ...]
    takes: Takes
    known: Mapping[str, str] = {}
    phrases: frozenset[tuple[str, str]] = frozenset()  # meanings written as two words
    options: tuple[str, ...] = ()  # keys of key=value and key:value


# The order is that of the parts of an answer to several directives at once.
DIRECTIVES: tuple[DirectiveForm, ...] = (
    DirectiveForm(
        "think",
        ("think", "thinking", "t"),
        "word",
        words.THINKING_WORDS,
        frozenset(
            {("extra", "high"), ("x", "high"), ("think", "hard"), ("think", "harder"), ("think", "hardest")},
        ),
    ),
    DirectiveForm("fast", ("fast",), "word", words.FAST_WORDS),
    DirectiveForm("verbose", ("verbose", "v"), "word", words.VERBOSE_WORDS),
    DirectiveForm("trace", ("trace",), "word", words.TRACE_WORDS),
    DirectiveForm("reasoning", ("reasoning", "reason"), "word", words.REASONING_WORDS),
    DirectiveForm("elevated", ("elevated", "elev"), "word", words.ELEVATED_WORDS, frozenset({("auto", "approve")})),
    DirectiveForm("exec", ("exec",), "options", options=("host", "security", "ask", "node")),
    DirectiveForm("model", ("model",), "model"),
    DirectiveForm("queue", ("queue",), "options", QUEUE_WORDS, options=("debounce", "cap", "drop")),
    DirectiveForm("status", ("status",), "nothing"),
)
DIRECTIVE_BY_NAME: dict[str, DirectiveForm] = {name: form for form in DIRECTIVES for name in form.names}
DIRECTIVE_ORDER: tuple[str, ...] = tuple(form.name for form in DIRECTIVES)
