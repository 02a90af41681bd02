"""Every configuration block of OpenClaw's docs, as the installed package has them: each must load.

Nothing of their text is kept here. A block counts if it parses as JSON5 (with or without braces around it, without the
dots that stand for "and so on") and says only keys that a whole config can begin with.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
import place
from tally import Tally

from palinurus.config.check import list_keys_below
from palinurus.config.load import ConfigReading, judge_config
from palinurus.config.relaxed import decode_json5

FENCE = re.compile(r"^[ \t]*(`{3,})[ \t]*(?:json5?c?)\b[^\n]*\n(.*?)^[ \t]*\1", re.DOTALL | re.MULTILINE)
DOTS = re.compile(r"^[ \t]*(?://[ \t]*)?(?:\.\.\.|…),?[ \t]*$|(?:\.\.\.|…)(?=[ \t]*[,}\]])", re.MULTILINE)
VARIABLE = re.compile(r"\$\{([A-Z_][A-Z0-9_]*)\}")


class Block(NamedTuple):
    """One block of a page."""

    page: str
    line: int
    text: str  # JSON


def list_blocks(docs: str) -> Iterator[Block]:
    """Those that are configurations, page by page."""
    for folder, _, names in sorted(os.walk(docs)):
        for name in sorted(name for name in names if name.endswith((".md", ".mdx"))):
            page = os.path.join(folder, name)
            with open(page, encoding="utf-8") as handle:
                text = handle.read()
            for found in FENCE.finditer(text):
                value = read_block(found[2])
                if value:
                    line = text.count("\n", 0, found.start()) + 1
                    yield Block(os.path.relpath(page, docs), line, msgspec.json.encode(value).decode())


def read_block(text: str) -> dict[str, Any]:
    """What the block says as a config; {} if it is none."""
    tops = set(list_keys_below(()))
    plain = DOTS.sub("", text)
    for one in (text, plain, f"{{{text}}}", f"{{{plain}}}"):
        try:
            value = decode_json5(one)
        except ValueError:
            continue
        if isinstance(value, dict) and value and set(value) <= tops:
            return value
    return {}


def judge_block(block: Block) -> ConfigReading:
    """How the block loads where every variable that it names is set."""
    environ = dict.fromkeys(VARIABLE.findall(block.text), "value")
    return judge_config(block.text, block.page, "/nowhere", {"HOME": "/nowhere", "PATH": "/bin", **environ})


def drive(version: str, cache: str, tally: Tally) -> None:
    """Load all of them. A value that is refused is told, and fails nothing: many blocks are excerpts, which name agents
    or files that only the rest of the page has."""
    docs = os.path.join(place.install_openclaw(cache, version), "node_modules", "openclaw", "docs")
    count: Counter[str] = Counter()
    for block in list_blocks(docs):
        found = judge_block(block)
        bad = [problem for problem in found.problems if problem.fatal]
        count["blocks"] += 1
        count["refused whole"] += found.settings is None
        count["with a value that is refused"] += bool(bad)
        count["with an unknown key"] += any(problem.message == "unknown key" for problem in found.problems)
        for problem in bad:
            print(f"        {block.page}:{block.line} {problem.path}: {problem.message}")
        if found.settings is None:
            tally.note(f"{block.page}:{block.line} loads", False)
    told = ", ".join(f"{number} {name}" for name, number in count.items())
    tally.note(f"configuration blocks of the docs: {told}", count["blocks"] > 0 and not count["refused whole"])
