"""What is found wrong with a config, and where a value stands while it is read. Knows neither keys nor files."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping

import msgspec

from palinurus.config import paths
from palinurus.config.keypath import Path

UNKNOWN = "unknown key"  # nobody reads what stands there


class ConfigFinding(msgspec.Struct, frozen=True):
    """A problem before it has a file and a line."""

    path: Path
    message: str
    hint: str = ""
    fatal: bool = True


def suggest_nearest(word: str, known: Iterable[str]) -> str:
    """`did you mean 'x'?` or nothing."""
    folded = {k.lower(): k for k in known}
    found = difflib.get_close_matches(word.lower()[:200], folded, 1, 0.6)
    return f"did you mean {folded[found[0]]!r}?" if found else ""


class ConfigPlace(msgspec.Struct, frozen=True):
    """Where a value stands, and what reading it may need."""

    home: str
    environ: Mapping[str, str]
    findings: list[ConfigFinding]
    path: Path = ()
    fetch: Callable[[str, str, str], tuple[str, str]] | None = None  # (source, provider, id) -> a secret, or why not

    def below(self, *parts: str | int) -> ConfigPlace:
        """The same for a value below."""
        return msgspec.structs.replace(self, path=(*self.path, *parts))

    def bad(self, key: str, message: str, hint: str = "", *, fatal: bool = True) -> None:
        """Note what is wrong with `key` (a.b.c from here; "" is the value itself)."""
        below = key.split(".") if key else ()
        self.findings.append(ConfigFinding((*self.path, *below), message, hint, fatal))

    def odd(self, key: str, message: str, hint: str = "") -> None:
        """Note what is strange about `key`, which stops nothing."""
        self.bad(key, message, hint, fatal=False)

    def folder(self, path: str) -> str:
        """`path` from the user's home or the state directory on."""
        return paths.expand_path(path, self.environ, self.home)
