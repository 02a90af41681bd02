"""English: how promises sound. A table; `commitments` reads it."""

from __future__ import annotations

from palinurus.core.languages.row import LanguageTable, build_gap_pattern

_WILL = (
    r"\bI(?:['’]ll|\s+will|['’]m\s+going\s+to|\s+am\s+going\s+to)\s+"
    r"(?:(?:also|then|definitely|certainly|just|(?:be|make)\s+sure\s+to)\s+)*"
)
_LATER = (
    r"(?:get\s+back\s+to\s+you|check\s+back|report\s+back|follow\s+up(?!\s+(?:each|every|all|the|this|that)\b)"
    r"|keep\s+(?:an\s+eye|you\s+(?:posted|updated|informed))"
    r"|let\s+you\s+know\s+(?:when|once|as\s+soon\s+as|how\s+it)|remind\s+you(?!\s+that)|(?:notify|ping|alert)\s+you"
    r"|circle\s+back|come\s+back\s+to\s+(?:you|this))"
)
_VERBS = (
    r"(?:check|look|send|try|run|review|update|finish|continue|write|prepare|ask|call|test|do|search|post|share"
    r"|summari[sz]e|monitor|watch|take\s+(?:another|a)\s+look|have\s+(?:it|this|that)\s+ready)\b"
)
_TIMES = (
    r"\b(?:tonight|tomorrow|this\s+(?:evening|afternoon)|later(?:\s+today)?|next\s+(?:week|month|\w+day)"
    r"|in\s+the\s+morning"
    r"|in\s+(?:an?|\d{1,3}|a\s+few|half\s+an|two|three|five|ten)\s+(?:minutes?|hours?|days?|weeks?|hour)"
    r"|(?:on|by)\s+(?:mon|tues|wednes|thurs|fri|satur|sun)day|every\s+(?:day|hour|morning|evening|week)"
    r"|at\s+(?:\d{1,2}(?::\d\d)?\s*(?:am|pm|o['’]clock)|\d{1,2}:\d\d|noon|midnight)|end\s+of\s+(?:the\s+)?day)"
)
_OBJECT = r"(?:\s+(?:you|him|her|them)\b)?" + build_gap_pattern(
    "for", "of", "with", "that", "which", "so", "if", "what", "whether", "who", "how", "you", "your", "saying",
    "leaving", "listing", "starting", "calendar", "weather", "events?", "meetings?", "appointments?", "forecast",
    "runs?", "due",
)  # fmt: skip
# The time ends its clause: "the later snapshot" and "tomorrow's entry" are things.
_END = r"(?=(?:\s+(?:morning|evening|afternoon|night|today|again))?\s*(?:[.!;,)–—-]|$|and\b|at\b|before\b|to\b))"

ENGLISH = LanguageTable(
    mark=r"\bI(?:['’](?:ll|m)|\s+(?:will|am))\b",
    promise=(rf"{_WILL}(?:{_LATER}|{_VERBS}{_OBJECT}{_TIMES}{_END})",),
    never=(
        r"\bif\s+(?:you|that|it|this|needed|so|not|necessary|there)",
        r"\bunless\b",
        r"\b(?:once|when|after|until|as\s+soon\s+as|whenever)\s+you(?:['’]\w+|r)?\b",
        r"\b(?:would|could|should|shall)\s+I\b|\bor\s+I['’]ll\b|\bthen\s+I['’]ll\b|\bwant\s+me\b|\bdon['’]t\b",
        r"\bsay\s+(?:so|yes)\b|\bjust\s+(?:say|tell|ask|let)\b|\blet\s+me\s+know\b|\bexample\b|\bsaying\b",
        r"\b(?:you|he|she|they|wrote|said)\s*[:,]\s*I['’]ll",
        r"\bright\s+(?:now|away)\b|\bnext\s+time\b|\bin\s+future\b|\bfrom\s+now\b",
    ),
    amount=r"\bin\s+(an?|\d{1,3}|a\s+few|half\s+an|two|three|five|ten)\s+(minute|hour|day|week)s?",
    numbers={"a": 1, "an": 1, "a few": 3, "half an": 0.5, "two": 2, "three": 3, "five": 5, "ten": 10},
    units=("minute", "hour", "day", "week"),
    days={
        "evening": r"\btonight\b|this\s+evening|every\s+evening",
        "afternoon": r"this\s+afternoon|\bat\s+noon|end\s+of\s+(?:the\s+)?day",
        "tomorrow": r"\btomorrow\b|in\s+the\s+morning|every\s+(?:day|morning)",
        "week": r"next\s+week|every\s+week",
    },
    clock=r"\bat\s+(\d{1,2})(?::(\d\d))?\s*(am|pm)?",
)
