"""Which tests go through the whole product: those whose code builds an App or an Agent, calls the command line, or
starts `python -m palinurus`, itself or in the fixtures and helpers (of tests/) that it uses.

Told from the compiled code, so that neither a folder nor a mark can claim it.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from palinurus.app.embed import Agent
from palinurus.app.program import App
from palinurus.cli.main import main

HERE = str(Path(__file__).parent.parent)
DOORS = (App, Agent, main)
PROGRAMS = {"palinurus", "palinurus.testing.server"}


def runs_product(function: Any, fixtures: Iterator[Any]) -> bool:
    """Does this test, with these fixtures, go through the whole product?"""
    waiting, seen = [function, *fixtures], set[int]()
    while waiting:
        one = inspect.unwrap(waiting.pop())
        one = getattr(getattr(one, "hypothesis", one), "inner_test", one)
        one = getattr(one, "__func__", one)
        if isinstance(one, type) and one.__module__.partition(".")[0] != "palinurus":
            waiting += [each for each in vars(one).values() if isinstance(each, FunctionType)]
        if not isinstance(one, FunctionType) or id(one) in seen or not one.__code__.co_filename.startswith(HERE):
            continue
        seen.add(id(one))
        names, words = _read(one.__code__)
        if "-m" in words and words & PROGRAMS:
            return True
        named = [one.__globals__[name] for name in names if name in one.__globals__]
        if any(each is door for each in named for door in DOORS):
            return True
        waiting += [each for each in named if callable(each)]
    return False


def _read(code: CodeType) -> tuple[set[str], set[str]]:
    """The names it uses and the strings it holds, nested functions included."""
    names, words = set(code.co_names), set[str]()
    for value in code.co_consts:
        if isinstance(value, CodeType):
            more, said = _read(value)
            names |= more
            words |= said
        elif isinstance(value, (str, tuple)):
            words |= {value} if isinstance(value, str) else {each for each in value if isinstance(each, str)}
    return names, words
