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
QUEUE: dict[str, str] = {
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
DROPS: tuple[str, ...] = ("old", "new", "summarize")
# The words that ask instead of setting.
QUERY: frozenset[str] = frozenset({"status"})


class Form(msgspec.Struct, frozen=True):
    """One directive. `names[0]` is what menus show; `known` maps collapsed words to their meaning."""

    name: str
    names: tuple[str, ...]
    takes: Takes
    known: Mapping[str, str] = {}
    phrases: frozenset[tuple[str, str]] = frozenset()  # meanings written as two words
    options: tuple[str, ...] = ()  # keys of key=value and key:value


# The order is that of the parts of an answer to several directives at once.
FORMS: tuple[Form, ...] = (
    Form(
        "think",
        ("think", "thinking", "t"),
        "word",
        words.THINKING,
        frozenset(
            {("extra", "high"), ("x", "high"), ("think", "hard"), ("think", "harder"), ("think", "hardest")},
        ),
    ),
    Form("fast", ("fast",), "word", words.FAST),
    Form("verbose", ("verbose", "v"), "word", words.VERBOSE),
    Form("trace", ("trace",), "word", words.TRACE),
    Form("reasoning", ("reasoning", "reason"), "word", words.REASONING),
    Form("elevated", ("elevated", "elev"), "word", words.ELEVATED, frozenset({("auto", "approve")})),
    Form("exec", ("exec",), "options", options=("host", "security", "ask", "node")),
    Form("model", ("model",), "model"),
    Form("queue", ("queue",), "options", QUEUE, options=("debounce", "cap", "drop")),
    Form("status", ("status",), "nothing"),
)
BY_NAME: dict[str, Form] = {name: form for form in FORMS for name in form.names}
ORDER: tuple[str, ...] = tuple(form.name for form in FORMS)
