"""Key paths: `agents.list[0].model`, `agents.defaults.models["openai/gpt-5.4"].alias` as text and as tuples.

Pure. Knows nothing of files or of which keys exist.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, TypeAlias

from palinurus.patterns import compile_late

Path: TypeAlias = tuple[str | int, ...]

MAX_PARTS = 64

_BARE = compile_late(r'[^.\[\]"\'\s\x00-\x1f]+')
_PART = compile_late(r'\[(\d{1,6})\]|\[("(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\')\]|([^.\[\]]+)')


def show_path(path: Iterable[str | int]) -> str:
    """The text form; keys that hold dots, brackets or blanks are quoted."""
    out = ""
    for part in path:
        if isinstance(part, int):
            out += f"[{part}]"
        elif _BARE.fullmatch(part):
            out += f".{part}" if out else part
        else:
            quoted = part.replace("\\", "\\\\").replace('"', '\\"')
            out += f'["{quoted}"]'
    return out


def parse_path(text: str) -> Path:
    """The tuple form. Raises ValueError with a sentence for people if `text` is no key path."""
    text = text.strip()
    if not text or len(text) > 1000:
        raise ValueError("a key path is needed, such as gateway.port")
    parts: list[str | int] = []
    at = 0
    while at < len(text):
        found = _PART.match(text, at)
        if found is None:
            raise ValueError(f"{text!r} is not a key path: cannot read it from {text[at:]!r} on")
        index, quoted, bare = found.groups()
        if index is not None:
            parts.append(int(index))
        elif quoted is not None:
            parts.append(re.sub(r"\\(.)", r"\1", quoted[1:-1]))
        else:
            parts.append(bare)
        at = found.end()
        if at < len(text) and text[at] == ".":
            at += 1
            if at == len(text) or text[at] in ".[":
                raise ValueError(f"{text!r} is not a key path: a name is missing after a dot")
    if len(parts) > MAX_PARTS:
        raise ValueError(f"a key path has {MAX_PARTS} parts at most")
    return tuple(parts)


def settle_path(path: Path, value: Any) -> Path:
    """`path` with `list.0` read as `list[0]` wherever `value` really has a list."""
    out: list[str | int] = []
    for part in path:
        if isinstance(value, list) and isinstance(part, str) and part.isdecimal() and part.isascii():
            part = int(part)
        out.append(part)
        value = get_at(value, (part,))
    return tuple(out)


def get_at(value: Any, path: Path, missing: Any = None) -> Any:
    """What stands at `path`, or `missing`."""
    for part in path:
        if isinstance(value, dict) and isinstance(part, str):
            if part not in value:
                return missing
            value = value[part]
        elif isinstance(value, list) and isinstance(part, int):
            if not 0 <= part < len(value):
                return missing
            value = value[part]
        else:
            return missing
    return value


def has_at(value: Any, path: Path) -> bool:
    """Does anything, null included, stand at `path`?"""
    nothing = object()
    return get_at(value, path, nothing) is not nothing
