"""The directives: their names, and the words that may follow each with what they mean. Tables, read by the parser and
by the menus.

Knows spellings only: which levels a model offers is `thinking`, which one applies `resolve`, what a directive does
`inbox/commands`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Literal, TypeAlias

import msgspec

from palinurus.patterns import compile_late

# The canonical thinking levels, in rank order; adaptive shares medium's rank.
THINKING_LEVELS: tuple[str, ...] = ("off", "minimal", "low", "medium", "adaptive", "high", "xhigh", "max")

_GAPS = compile_late(r"[\s_-]+")


def _table(**rows: str) -> dict[str, str]:
    """Each word with its meaning. Spaces, hyphens and underscores do not matter: "extra high" is "extra-high"."""
    gaps = str.maketrans("", "", " -_")  # not the pattern: that compiles with the first message
    return {word.translate(gaps): meaning for meaning, words in rows.items() for word in words.split(",")}


THINKING_WORDS = _table(
    off="off",
    minimal="minimal,min,think",
    low="low,on,enable,enabled,think hard",
    medium="medium,med,mid,think harder,harder",
    high="high,highest,ultra,ultrathink,think hardest",
    xhigh="xhigh,extra high,ultrathink+",
    adaptive="adaptive,auto",
    max="max",
)
FAST_WORDS = _table(on="on,true,yes,1,enable,enabled,fast", off="off,false,no,0,disable,disabled,normal", auto="auto")
VERBOSE_WORDS = _table(on="on,minimal,true,yes,1", full="full,all,everything", off="off,false,no,0")
TRACE_WORDS = _table(on="on,true,yes,1,raw,unfiltered", off="off,false,no,0")
REASONING_WORDS = _table(
    on="on,true,yes,1,show,visible,enable,enabled",
    stream="stream,streaming,draft,live",
    off="off,false,no,0,hide,hidden,disable,disabled",
)
ELEVATED_WORDS = _table(
    on="on,true,yes,1", ask="ask,prompt,approval,approve", full="full,auto,auto-approve", off="off,false,no,0"
)
# Modes of the queue and the other words people use for them.
QUEUE_WORDS = _table(
    steer="steer,steering,queue,queued",
    followup="followup,followups,steerbacklog,steer+backlog",
    collect="collect,coalesce",
    interrupt="interrupt,interrupts,abort",
)
QUEUE_DROPS: tuple[str, ...] = ("old", "new", "summarize")
# Words that drop a session's override, for every directive; and those that ask instead of setting.
CLEAR_WORDS: frozenset[str] = frozenset({"default", "inherit", "inherited", "clear", "reset", "unpin"})
QUERY_WORDS: frozenset[str] = frozenset({"status"})


def find_meaning(table: Mapping[str, str], text: object) -> str | None:
    """The canonical word, or None for anything the table does not know. Booleans count as true and false."""
    if isinstance(text, bool):
        text = "true" if text else "false"
    if not isinstance(text, str) or len(text) > 64:
        return None
    return table.get(_GAPS.sub("", text.strip().lower()))


# What a text means for each directive: one of its canonical words, or None.
parse_thinking = partial(find_meaning, THINKING_WORDS)
parse_fast = partial(find_meaning, FAST_WORDS)
parse_verbose = partial(find_meaning, VERBOSE_WORDS)
parse_trace = partial(find_meaning, TRACE_WORDS)
parse_reasoning = partial(find_meaning, REASONING_WORDS)
parse_elevated = partial(find_meaning, ELEVATED_WORDS)


def is_clear_word(text: object) -> bool:
    """True for the words that mean: forget the override."""
    return isinstance(text, str) and text.strip().lower() in CLEAR_WORDS


Takes: TypeAlias = Literal["word", "model", "options", "nothing"]


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
        THINKING_WORDS,
        frozenset({("extra", "high"), ("x", "high"), ("think", "hard"), ("think", "harder"), ("think", "hardest")}),
    ),
    DirectiveForm("fast", ("fast",), "word", FAST_WORDS),
    DirectiveForm("verbose", ("verbose", "v"), "word", VERBOSE_WORDS),
    DirectiveForm("trace", ("trace",), "word", TRACE_WORDS),
    DirectiveForm("reasoning", ("reasoning", "reason"), "word", REASONING_WORDS),
    DirectiveForm("elevated", ("elevated", "elev"), "word", ELEVATED_WORDS, frozenset({("auto", "approve")})),
    DirectiveForm("exec", ("exec",), "options", options=("host", "security", "ask", "node")),
    DirectiveForm("model", ("model",), "model"),
    DirectiveForm("queue", ("queue",), "options", QUEUE_WORDS, options=("debounce", "cap", "drop")),
    DirectiveForm("status", ("status",), "nothing"),
)
DIRECTIVE_BY_NAME: dict[str, DirectiveForm] = {name: form for form in DIRECTIVES for name in form.names}
DIRECTIVE_ORDER: tuple[str, ...] = tuple(form.name for form in DIRECTIVES)
