"""The package as trees, for tests of its source: all of it is read, parsed and walked once in a process."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TypeVar

SRC = Path(__file__).parents[1] / "src" / "palinurus"
Node = TypeVar("Node", bound=ast.AST)


class Source:
    """One file of the package, read, parsed and walked once."""

    def __init__(self, path: Path) -> None:
        self.name = path.relative_to(SRC).as_posix()  # with slashes
        self.text = path.read_text(encoding="utf-8")
        self.tree = ast.parse(self.text)
        self._by_kind: dict[type[ast.AST], list[ast.AST]] = {}
        for node in ast.walk(self.tree):
            self._by_kind.setdefault(type(node), []).append(node)

    @property
    def layer(self) -> str:
        return self.name.split("/")[0].removesuffix(".py")

    @property
    def folder(self) -> str:
        return self.name.rpartition("/")[0]

    @property
    def module(self) -> str:
        return "palinurus." + self.name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    @property
    def modules(self) -> set[str]:
        """Names of our modules that it imports."""
        found = (node for node in self.tree.body if isinstance(node, ast.ImportFrom))
        return {
            alias.asname or alias.name
            for node in found
            if (node.module or "").startswith("palinurus")
            for alias in node.names
        }

    def nodes(self, *kinds: type[Node]) -> Iterator[Node]:
        """All nodes of these kinds."""
        for kind in kinds:
            yield from self._by_kind.get(kind, ())  # type: ignore[misc]

    def everything(self) -> Iterator[ast.AST]:
        return self.nodes(*self._by_kind)

    def functions(self) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        return self.nodes(ast.FunctionDef, ast.AsyncFunctionDef)


@cache
def sources() -> list[Source]:
    """Every file of the package. Not at import: only the worker that runs these tests pays for it."""
    gc.disable()  # a million objects that stay: looking for garbage among them takes longer than making them
    try:
        made = [Source(path) for path in sorted(SRC.rglob("*.py"))]
        gc.freeze()  # nor do the tests after these look there: one that collects 20 times took 10 s for it
        return made
    finally:
        gc.enable()
