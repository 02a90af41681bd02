"""Work on foreign text grows with its length, not with its square: one message must not hold everybody up.

Every late pattern of the package meets texts that are made from it to be hard (`growth.py`), in the way it is used;
so do the parsers that read what models, pages and people write.
"""

from __future__ import annotations

import importlib
import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from growth import grows_too_fast, list_hard_texts
from palinurus.core.format.blocks import parse_blocks
from palinurus.core.policy.networking import judge_network
from palinurus.core.policy.shell import find_deceptive_text, parse_command
from palinurus.core.types.approval import TaintRules
from palinurus.patterns import LatePattern

SRC = Path(__file__).parents[1] / "src" / "palinurus"
HARD = 9  # texts for each pattern
VERBS = ("search", "match", "fullmatch", "sub", "findall", "finditer", "split")
# Who is asked in a way that cannot be read off the file.
USED = {"tools/files/hunks.py": "fullmatch", "core/stream/marks.py": "match", "plugins/extras.py": "fullmatch"}
# What meets only short texts, and why.
SHORT = {("sessions/upkeep.py", "_SIDE"): "paths of our own files"}


def patterns(part: str) -> Iterator[tuple[str, str, LatePattern, str]]:
    """File, name, pattern and the verb it is used with."""
    folder = SRC / part
    for path in sorted(folder.rglob("*.py")) if folder.is_dir() else (folder,):
        text, file = path.read_text(encoding="utf-8"), path.relative_to(SRC).as_posix()
        if "compile_late(" not in text:
            continue
        module = importlib.import_module(
            "palinurus." + file.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        )
        for name in re.findall(r"^(\w+)(?:: .+?)? = compile_late\(", text, re.MULTILINE):
            verbs = [verb for verb in VERBS if re.search(rf"\b{name}\.{verb}\(", text)] or [USED.get(file, "search")]
            for verb in verbs if (file, name) not in SHORT else ():
                yield file, name, vars(module)[name], verb


def make_work(pattern: LatePattern, verb: str) -> Callable[[str], object]:
    binary, made = isinstance(pattern.pattern, bytes), re.compile(pattern.pattern, pattern._flags)

    def work(text: str) -> object:
        given: Any = text.encode("latin-1", "replace") if binary else text
        if verb == "sub":
            return made.sub(b"" if binary else "", given)
        found = getattr(made, verb)(given)
        return list(found) if verb == "finditer" else found

    return work


PARTS = sorted(
    {
        "/".join(path.relative_to(SRC).parts[: 2 if path.parts[len(SRC.parts)] == "core" else 1])
        for path in SRC.rglob("*.py")
    }
)


@pytest.mark.torture  # a minute of processor time: `make torture`, or pytest --torture tests/test_growth.py
@pytest.mark.parametrize(
    "part", [part for part in PARTS if part not in ("cli", "testing")]
)  # which read their owner's words
def test_patterns_are_linear(part: str) -> None:
    bad = [
        f"{file} {name}.{verb} on {make(24)!r}"
        for file, name, pattern, verb in patterns(part)
        for make in itertools.islice(list_hard_texts(pattern.pattern, pattern._flags), HARD)
        if grows_too_fast(make_work(pattern, verb), make)
    ]
    assert not bad, "twice the text takes four times as long:\n" + "\n".join(bad)


@pytest.mark.torture
def test_a_quadratic_pattern_is_noticed() -> None:
    for text, verb in ((r"\s+$", "search"), (r"@.*:", "search"), (r"\s*x?\s*:", "match"), (r"(a+)+b", "match")):
        late = LatePattern(text, 0)
        hard = list_hard_texts(text, 0)
        assert any(grows_too_fast(make_work(late, verb), make) for make in hard), text


PIECES = (
    "@",
    "`",
    "```\n",
    "|",
    "$(",
    "'",
    '"',
    "[",
    "](",
    "<",
    "<a ",
    "> ",
    "* ",
    "{",
    '{"a":',
    "<tool_call>",
    "a ",
    "\n",
    "\\",
)
PARSERS: dict[str, Callable[[str], object]] = {
    "a command": parse_command,
    "what deceives": find_deceptive_text,
    "the network of a command": lambda text: judge_network(f"make {text}", ("file README.md",), TaintRules()),
    "markdown": parse_blocks,
}


@pytest.mark.parametrize("name", PARSERS)
def test_parsers_are_linear(name: str) -> None:
    bad = [
        f"{head!r} and {piece!r}"
        for piece in PIECES
        for head in ("", "exec a")
        if grows_too_fast(PARSERS[name], lambda size, h=head, p=piece: h + p * (size // len(p)))  # type: ignore[misc]
    ]
    assert not bad, f"{name}: " + ", ".join(bad)
