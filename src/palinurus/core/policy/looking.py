"""Which lines of `pal` the agent's own commands may have answered: those that only look, and show neither secrets nor
what was said. A right of its own: it goes with the handle a command was started with (`tools/commands/look.py`), and
the program that answers is the one that judges. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

MOST_WORDS, MOST_CHARS = 16, 2000
# Command -> its verbs that only look; "" stands for the line without a verb.
LOOKING: dict[str, frozenset[str]] = {
    "status": frozenset({""}),
    "doctor": frozenset({""}),
    "usage": frozenset({""}),
    "sessions": frozenset({"", "list"}),
    "config": frozenset({"explain", "get", "validate", "path"}),
    "models": frozenset({"", "list", "status"}),
    "policy": frozenset({"explain", "list"}),
    "sandbox": frozenset({"explain"}),
    "cron": frozenset({"list", "why"}),
    "skills": frozenset({"list", "check", "info"}),
    "plugins": frozenset({"list", "info"}),
    "mcp": frozenset({"list"}),
    "channels": frozenset({"list", "status"}),
    "extras": frozenset({"", "list"}),
}
FLAGS = frozenset({"--json", "--all", "--group"})
VALUED = frozenset({"--agent", "--session", "--since", "--by", "--channel", "--model", "--limit"})


def explain_refused_look(line: Sequence[str]) -> str:
    """Why this line (without `pal`) is not answered; "" if it is. What the line does with its words is its own
    business: all verbs here take them only to choose what is shown."""
    if not line or len(line) > MOST_WORDS or sum(map(len, line)) > MOST_CHARS or "\x00" in "".join(line):
        return "that is no line of `pal`"
    command, *words = line
    verbs = LOOKING.get(command)
    if verbs is None:
        return f"`pal {command[:40]}` does more than look"
    verb = words.pop(0) if words and not words[0].startswith("-") else ""
    if verb not in verbs:
        return f"`pal {command} {verb[:40]}`".replace(" `", "`") + " does more than look"
    while words:
        word = words.pop(0)
        name, equals, _ = word.partition("=")
        if name in VALUED and (equals or words):
            words = words if equals else words[1:]
        elif word.startswith("-") and word not in FLAGS:
            return f"the option {name[:40]} is not for a look"
        elif not verb and not word.startswith("-"):
            return f"`pal {command} {word[:40]}` does more than look"
    return ""


def list_looks() -> list[str]:
    """The lines, for people."""
    return [f"pal {command} {verb}".rstrip() for command, verbs in LOOKING.items() for verb in sorted(verbs)]
