"""How the tree is named: shared class names, one-word functions, participles, files and lines. Prints a table.

`python tests/names.py [FOLDER]` measures any Python tree the same way; `test_architecture.py` holds ours to it.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

OURS = Path(__file__).parents[1] / "src" / "palinurus"

# English participles that no ending gives away.
IRREGULAR = frozenset(
    """been begun bent bitten blown bought bound broken brought built caught chosen come done drawn driven eaten fallen
    felt flown forgotten forgiven found frozen given gone grown heard held hidden kept known laid led left lent lost
    made meant met paid proven ridden risen said seen sent shaken shown shrunk sold spent spoken spun stolen
    stood stuck struck sung sunk sworn taken taught thought thrown told torn understood woken won worn woven
    written""".split()
)
# Words that only look like participles: verbs and nouns of their own.
PLAIN = frozenset("bleed breed embed exceed feed heed need proceed seed shed shred speed succeed wed weed".split())


def is_participle(name: str) -> bool:
    """Does the name begin with what has been done, instead of with what it does? (`found`, `fitted_history`)"""
    word = name.split("_")[0]
    return word not in PLAIN and (word in IRREGULAR or re.fullmatch(r"[a-z]{2,}ed", word) is not None)


class Naming(NamedTuple):
    """What one tree's public names are like."""

    classes: Counter[str]  # how many modules define a class of this name
    functions: tuple[tuple[str, str], ...]  # (file, name) of every function at the top of a module
    files: int
    lines: int

    @property
    def shared(self) -> tuple[str, ...]:
        """Class names that two or more modules define."""
        return tuple(sorted(name for name, count in self.classes.items() if count > 1))

    @property
    def shared_part(self) -> float:
        return sum(self.classes[name] for name in self.shared) / max(1, sum(self.classes.values()))

    @property
    def one_word(self) -> tuple[str, ...]:
        return tuple(name for _, name in self.functions if "_" not in name)

    @property
    def participles(self) -> tuple[str, ...]:
        return tuple(f"{file}: {name}" for file, name in self.functions if is_participle(name))


def measure(modules: Iterable[tuple[str, str, ast.Module]]) -> Naming:
    """Every public class and function at the top of these modules: (name, text, tree) each."""
    classes: Counter[str] = Counter()
    functions: list[tuple[str, str]] = []
    files = lines = 0
    for name, text, tree in modules:
        files += 1
        lines += len(text.splitlines())
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                classes[node.name] += 1
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
                functions.append((name, node.name))
    return Naming(classes, tuple(functions), files, lines)


def main(root: Path) -> None:
    texts = ((path.as_posix(), path.read_text(encoding="utf-8")) for path in sorted(root.rglob("*.py")))
    found = measure((name, text, ast.parse(text)) for name, text in texts)
    total = max(1, len(found.functions))
    print(f"public class names that two or more modules share  {found.shared_part:8.1%}")
    print(f"public functions named with one word               {len(found.one_word) / total:8.1%}")
    print(f"public functions that begin with a participle      {len(found.participles) / total:8.1%}")
    print(f"files                                              {found.files:8}")
    print(f"lines                                              {found.lines:8}")
    print(f"mean lines of a file                               {found.lines / max(1, found.files):8.0f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else OURS)
