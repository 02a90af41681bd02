"""What OpenClaw documents of its configuration, as facts (`openclaw_keys.txt`), and configs that say all of it."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from palinurus.config import keypath
from palinurus.config.check import describe_key
from palinurus.config.kinds import Kind

LIST = Path(__file__).with_name("openclaw_keys.txt")
SAMPLES: dict[str, tuple[Any, ...]] = {
    "b": (True,), "n": (2, 0.5), "s": ("x", "1h", "https://a.example"), "l": (["x"], [2]), "o": ({},), "z": (None,),
}  # fmt: skip

# Words that are no words of a list, but not just any text either.
KNOWN: dict[str, Any] = {
    "backend": "docker", "binds": ["/srv/a:/srv/a:ro"], "baseUrl": "https://a.example/v1", "agentId": "main",
    "dmPolicy": "pairing", "groupPolicy": "open", "streaming": "partial", "mode": "off", "replyToMode": "batched",
    "bind": "loopback", "policy": "pairing", "url": "https://a.example",
    "presets": ["gmail"], "input": ["text"], "highWaterBytes": "1gb", "maxDiskBytes": "2gb", "maxBytes": "2mb",
    "maxActiveTranscriptBytes": "3mb",
    "criticalThreshold": 9, "alsoAllow": [],
    "broadcast": ["main"],
}  # fmt: skip


@cache
def read_documented() -> dict[tuple[str, ...], str]:
    """Key paths with `*` and `[]`, and the letter of their kind."""
    text = "\n".join(line for line in LIST.read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
    found: dict[tuple[str, ...], str] = {}
    for row in text.replace("\n  ", " ").splitlines():
        place, _, names = row.partition(": ")
        around = tuple(place.replace("[]", ".[]").split(".")) if place != "." else ()
        for one in names.split():
            name, _, letter = one.rpartition("=")
            found[(*around, name)] = letter
    return found


def write_out(path: tuple[str, ...]) -> keypath.Path:
    """The pattern as a path that can stand in a file."""
    return tuple(0 if part == "[]" else "name" if part == "*" else part for part in path)


def list_words(kind: Kind | None) -> list[Any]:
    """The words that can stand there; for a list, lists of one."""
    found: list[Any] = []
    for option in kind.options if kind else ():
        found += getattr(option, "words", ())
        found += [[word] for word in getattr(getattr(option, "item", None), "words", ())]
    return found


def choose_sample(path: keypath.Path, letter: str) -> Any:
    """A value that can stand there: of the documented kind, and one of the words if there are some."""
    kind, known = describe_key(path), KNOWN.get(str(path[0] if path[0] == "broadcast" else path[-1]))
    if known is not None and (kind is None or kind.fits(known)):
        return known
    words = list_words(kind)
    return next((one for one in (*SAMPLES[letter], *words) if kind is None or kind.fits(one)), SAMPLES[letter][0])


@cache
def build_shapes() -> tuple[dict[str, Any], ...]:
    """One config for each section that is documented, with all its keys; those below `channels` one by one."""
    made: dict[tuple[str, ...], Any] = {}
    for pattern, letter in sorted(read_documented().items()):
        path = write_out(pattern)
        name = pattern[: 2 if pattern[0] in ("channels", "agents") else 1]
        around = made.setdefault(name, {})
        for part, after in pairwise(path):
            below: Any = [] if after == 0 else {}
            if isinstance(around, list):
                around[:] = around or [below]
            elif not isinstance(around.get(part), dict | list):  # a key may be written in two forms
                around[part] = below
            around = around[part]
        if isinstance(around, dict):
            around[path[-1]] = choose_sample(path, letter)
    return tuple(made.values())
