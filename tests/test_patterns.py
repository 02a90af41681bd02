"""Patterns that compile late: each of them does compile, and they are used where they pay."""

from __future__ import annotations

import ast
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest

from palinurus.patterns import LatePattern, compile_late, decode_late

SRC = Path(__file__).parents[1] / "src" / "palinurus"


def test_it_looks_like_a_compiled_pattern() -> None:
    late, now = compile_late(r"(?P<word>[a-z]+)(\d)?", re.I), re.compile(r"(?P<word>[a-z]+)(\d)?", re.I)
    assert late.pattern == now.pattern and late.flags == now.flags
    assert (late.groups, late.groupindex) == (now.groups, now.groupindex)
    found = late.fullmatch("Abc1")
    assert found is not None and found["word"] == "Abc" and found[2] == "1"
    assert late.sub("x", "ab 1") == "x 1" and late.findall("a b") == now.findall("a b")
    assert compile_late(rb"a+").fullmatch(b"aa") is not None


def test_it_compiles_once_and_not_before_it_is_used() -> None:
    late = LatePattern("(", 0)
    with pytest.raises(re.error):
        late.match("x")
    used = LatePattern("a", 0)
    assert not {"match", "search"} & set(vars(used))
    assert used.match("a") and vars(used)["match"] is used.match
    with pytest.raises(AttributeError):
        used.no_such_thing  # noqa: B018


def test_it_survives_a_process_border() -> None:
    assert pickle.loads(pickle.dumps(LatePattern("a+", 0))).match("aa")


def test_a_decoder_is_made_with_its_first_use() -> None:
    late = decode_late(dict[str, int])
    assert "decode" not in vars(late)
    assert late.decode(b'{"a": 1}') == {"a": 1} and vars(late)["decode"] is late.decode
    with pytest.raises(AttributeError):
        late.no_such_thing  # noqa: B018


def _patterns() -> list[str]:
    """Every module that has late patterns."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(SRC.rglob("*.py"))}
    return [
        "palinurus." + path.relative_to(SRC).with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__")
        for path, text in texts.items()
        if ("compile_late(" in text or "decode_late(" in text) and path.name != "patterns.py"
    ]


_CHECK = """
import importlib, sys
from palinurus import patterns
made, init = [], patterns.LatePattern.__init__
def note(self, *args):
    made.append(self)
    init(self, *args)
patterns.LatePattern.__init__ = note
asked, start = [], patterns.LateDecoder.__init__
def remember(self, kind):
    asked.append(self)
    start(self, kind)
patterns.LateDecoder.__init__ = remember
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as exc:
        print("skipped", name, exc, file=sys.stderr)
early = [one.pattern for one in made if set(vars(one)) - {"pattern", "_flags"}]
assert not early, f"compiled while importing: {early}"
assert not [one.type for one in asked if "decode" in vars(one)], "made while importing"
import re
for one in made:
    one.fullmatch
    code = str(re._parser.parse(one.pattern, one._flags))
    assert "POSSESSIVE" not in code and "ATOMIC" not in code, f"wrong before Python 3.11.5: {one.pattern}"
for one in asked:
    one.decode
print(len(made), len(asked))
"""


def test_every_pattern_compiles_and_none_does_so_while_importing() -> None:
    done = subprocess.run([sys.executable, "-c", _CHECK, *_patterns()], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    patterns, decoders = map(int, done.stdout.split())
    assert patterns > 300 and decoders > 10


def test_no_module_compiles_while_it_is_imported() -> None:
    found = []
    alone = {"glob.py", "worker.py", "trial.py"}  # programs of their own, which load the standard library only
    for path in (path for path in sorted(SRC.rglob("*.py")) if path.name not in alone):
        if "re.compile" not in (text := path.read_text(encoding="utf-8")):
            continue  # parsing all takes seconds
        tree = ast.parse(text)
        outside = [node for node in tree.body if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        while outside:
            node = outside.pop()
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "re.compile":
                found.append(f"{path.relative_to(SRC)}:{node.lineno}")
            outside.extend(ast.iter_child_nodes(node))
    assert not found, f"use compile_late at module level: {found}"
