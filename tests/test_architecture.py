"""The ratchet: layers, purity, sizes, names, imports at the top, nothing on import. No exception list.

Every test walks trees that are parsed once and names all places that break its rule.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from names import measure
from palinurus.late import PARTS

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src" / "palinurus"

# Top may import lower lines; names on one line never import each other.
LAYERS = """
cli | testing
app
gateway | channels | triggers
inbox | outbox
services
agent
providers | sessions | workspace | tools
store | plugins
config
core
errors | abort | clock | crashpoints | late | tasks | backoff | files | cachefile
"""
RANK = {n.strip(): i for i, line in enumerate(LAYERS.strip().splitlines()) for n in line.split("|")}

PURE = ("core", "providers/wire", "providers/vendors")
IMPURE = {"os", "time", "asyncio", "pathlib", "random", "logging", "aiohttp", "socket", "subprocess", "threading", "io"}
LAZY = {"__init__.py", "providers/__init__.py", "channels/__init__.py", "plugins/load.py", "cli/main.py", "late.py"}
BORDERS = {"tools/call.py", "plugins/hooks.py"}  # besides task boundaries, which say so
CLOCKS = {"time", "monotonic", "time_ns", "monotonic_ns", "perf_counter", "sleep"}
EMPTY_WORDS = {"utils", "helpers", "manager", "service", "common", "base", "misc"}

FILE_LINES, FUNCTION_LINES, PARAMETERS, FOLDER_FILES, TINY, POSITIONAL = 400, 60, 7, 25, 40, 4

# Lines a folder may have. Only smaller numbers are put here.
LINES = {
    ".": 600,
    "agent": 6_800,
    "app": 1_900,
    "channels": 8_900,
    "cli": 10_100,
    "config": 6_800,
    "core": 14_100,
    "gateway": 10_500,
    "inbox": 5_000,
    "outbox": 2_200,
    "plugins": 1_400,
    "providers": 9_200,
    "services": 2_700,
    "sessions": 3_000,
    "store": 2_200,
    "testing": 6_600,
    "tools": 11_200,
    "triggers": 1_700,
    "workspace": 2_800,
}


class Source(NamedTuple):
    """One file of the package, read and parsed once."""

    name: str  # relative to the package, with slashes
    text: str
    tree: ast.Module

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

    def walk(self) -> Iterator[ast.AST]:
        return ast.walk(self.tree)

    def functions(self) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        return (node for node in self.walk() if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def _read(path: Path) -> Source:
    text = path.read_text(encoding="utf-8")
    return Source(path.relative_to(SRC).as_posix(), text, ast.parse(text))


SOURCES = [_read(path) for path in sorted(SRC.rglob("*.py"))]


def clean(found: list[str], rule: str) -> None:
    assert not found, rule + ":\n" + "\n".join(found)


def imports(node: ast.AST) -> Iterator[tuple[str, int]]:
    for child in ast.walk(node):
        if isinstance(child, ast.Import):
            yield from ((alias.name, child.lineno) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, f"relative import in line {child.lineno}"
            yield child.module or "", child.lineno
            if child.module == "palinurus":
                yield from ((f"palinurus.{alias.name}", child.lineno) for alias in child.names)


def layer(dotted: str) -> str | None:
    parts = dotted.split(".")
    return parts[1] if parts[0] == "palinurus" and len(parts) > 1 else None


def test_layers() -> None:
    bad = []
    for one in SOURCES:
        if one.layer in ("__init__", "__main__"):
            continue
        if one.layer not in RANK:
            bad.append(f"{one.name} stands in no line of the layer table")
            continue
        for module, line in imports(one.tree):
            other = layer(module)
            if other is None or other in (one.layer, "__init__", "__version__"):
                continue
            if other not in RANK or RANK[other] <= RANK[one.layer]:
                bad.append(f"{one.name}:{line} may not import {module}")
    clean(bad, "top may import lower lines only")


def test_purity() -> None:
    bad = []
    for one in (s for s in SOURCES if s.name.startswith(PURE)):
        for module, line in imports(one.tree):
            if module.split(".")[0] in IMPURE or module.startswith("palinurus.abort"):
                bad.append(f"{one.name}:{line} imports {module}")
        for node in one.walk():
            if isinstance(node, ast.AsyncFunctionDef | ast.Await):
                bad.append(f"{one.name}:{node.lineno} is async")
    clean(bad, f"{', '.join(PURE)} are pure")


def test_sizes() -> None:
    bad = []
    for one in SOURCES:
        lines = len(one.text.splitlines())
        if lines > FILE_LINES:
            bad.append(f"{one.name} has {lines} lines")
        for node in one.functions():
            size = (node.end_lineno or 0) - node.lineno + 1
            args = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            count = len([a for a in args if a.arg not in ("self", "cls")])
            if size > FUNCTION_LINES:
                bad.append(f"{one.name}:{node.lineno} {node.name} has {size} lines")
            if count > PARAMETERS:
                bad.append(f"{one.name}:{node.lineno} {node.name} takes {count} parameters")
    for folder, count in Counter(one.folder for one in SOURCES).items():
        if count > FOLDER_FILES:
            bad.append(f"{folder}/ has {count} files")
    clean(bad, "files, functions and folders stay small")


def test_tiny_files_belong_to_their_only_user() -> None:
    """A file of a few lines that one neighbour imports costs a reader a hop and gives nothing."""
    known = {one.module: one for one in SOURCES}
    users: defaultdict[str, set[str]] = defaultdict(set)
    for one in SOURCES:
        for node in one.walk():
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    whole = f"{node.module}.{alias.name}"
                    users[whole if whole in known else node.module].add(one.name)
    bad = []
    for one in SOURCES:
        if not one.folder or one.name.endswith("__init__.py") or len(users[one.module]) != 1:
            continue
        (user,) = users[one.module]
        if user.endswith("__init__.py"):
            continue  # the table of its folder: one row, one file
        if user.rpartition("/")[0] == one.folder and code_lines(one) < TINY:
            bad.append(f"{one.name} has {code_lines(one)} lines of code and one user, {user}")
    clean(bad, f"fewer than {TINY} lines of code and one user next door: fold it")


def code_lines(one: Source) -> int:
    """Lines that are neither blank, comment, docstring nor import."""
    other: set[int] = set()
    for node in one.walk():
        if isinstance(node, ast.Import | ast.ImportFrom) or (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        ):
            other.update(range(node.lineno, (node.end_lineno or 0) + 1))
    rows = enumerate(one.text.splitlines(), 1)
    return sum(at not in other and bool(row.strip()) and not row.lstrip().startswith("#") for at, row in rows)


def test_names() -> None:
    """A class is named once in the tree; a function says what it does (`names.py` prints the figures)."""
    found = measure(SRC)
    clean(list(found.shared), "class names that two modules define")
    clean(list(found.participles), "functions that begin with what has been done")
    assert len(found.one_word) <= 0.15 * len(found.functions), found.one_word


def test_no_mutable_globals() -> None:
    """What a module holds at its top is a constant: state belongs to objects that somebody makes and hands on."""
    changing = {"append", "add", "update", "pop", "setdefault", "clear", "remove", "extend", "discard", "popitem"}
    bad = []
    for one in SOURCES:
        own = {
            target.id
            for node in one.tree.body
            if isinstance(node, ast.Assign | ast.AnnAssign)
            for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
            if isinstance(target, ast.Name)
        }
        for node in one.walk():
            targets: list[ast.expr] = []
            if isinstance(node, ast.Global):
                bad.append(f"{one.name}:{node.lineno} global {', '.join(node.names)}")
            elif isinstance(node, ast.Assign | ast.Delete):
                targets = node.targets
            elif isinstance(node, ast.AugAssign):
                targets = [node.target]
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in changing:
                targets = [ast.Subscript(value=node.func.value)]
            for target in targets:
                held = target.value if isinstance(target, ast.Subscript) else None
                if isinstance(held, ast.Name) and held.id in own:
                    bad.append(f"{one.name}:{node.lineno} changes {held.id}")
    clean(bad, "no state at the top of a module")


def test_calls_name_what_comes_after_the_fourth_argument() -> None:
    """A reader cannot count further. Rows of tables at the top of a module are columns, and may be long."""
    taking: dict[str, bool] = {}  # our classes and functions by name -> any number of arguments?
    for one in SOURCES:
        for node in one.tree.body:
            if isinstance(node, ast.ClassDef):
                taking[node.name] = False
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                taking[node.name] = taking.get(node.name, False) or node.args.vararg is not None
    bad = []
    for one in SOURCES:
        rows = {
            id(call) for top in one.tree.body if isinstance(top, ast.Assign | ast.AnnAssign) for call in ast.walk(top)
        }
        for call in one.walk():
            if not isinstance(call, ast.Call) or len(call.args) <= POSITIONAL or id(call) in rows:
                continue
            name = ast.unparse(call.func)
            ours = "." not in name or name.split(".")[0] in one.modules
            if (
                ours
                and taking.get(name.split(".")[-1]) is False
                and not any(isinstance(a, ast.Starred) for a in call.args)
            ):
                bad.append(f"{one.name}:{call.lineno} {name} with {len(call.args)} arguments")
    clean(bad, f"at most {POSITIONAL} positional arguments")


def test_the_tree_does_not_grow() -> None:
    """Lines of each folder, in hundreds. What is added is paid for by what is merged; the budget may only shrink."""
    lines: Counter[str] = Counter()
    for one in SOURCES:
        lines[one.layer if one.folder else "."] += len(one.text.splitlines())
    bad = [
        f"{name} has {count} lines, {LINES.get(name, 0)} are its budget"
        for name, count in lines.items()
        if count > LINES.get(name, 0)
    ]
    clean(bad, "merge or delete as much as you add")


def test_imports_at_the_top() -> None:
    bad = []
    for one in (s for s in SOURCES if s.name not in LAZY):
        for function in one.functions():
            for inner in ast.walk(function):
                if isinstance(inner, ast.Import | ast.ImportFrom):
                    bad.append(f"{one.name}:{inner.lineno} imports inside a function")
        for node in one.walk():
            by_name = ("import_module", "importlib.import_module", "__import__")
            if isinstance(node, ast.Call) and ast.unparse(node.func) in by_name:
                bad.append(f"{one.name}:{node.lineno} loads a module by name")
    clean(bad, "imports stand at the top; what loads late is a row of a table")


def test_parts_that_load_late_keep_to_the_layers() -> None:
    """`late.py` is the one table for what an idle program does not need (it was a third of its start): every use of a
    row is an import, and is held to what imports are held to."""
    bad, used = [], 0
    for one in (s for s in SOURCES if "late.load_part(" in s.text):
        for node in one.walk():
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "late.load_part":
                used += 1
                assert isinstance(node.args[0], ast.Constant), f"{one.name}:{node.lineno} asks for no row by name"
                other = layer(PARTS[str(node.args[0].value)].partition(":")[0])
                if other not in (None, one.layer) and RANK[str(other)] <= RANK[one.layer]:
                    bad.append(f"{one.name}:{node.lineno} may not ask for {node.args[0].value}")
    assert used, "nobody uses the table any more"
    clean(bad, "late parts keep to the layers")


def test_nothing_happens_on_import() -> None:
    """At module level: definitions, constants, tables. No loops, no opening, no environment."""
    bad = []
    for one in SOURCES:
        for node in one.tree.body:
            acts = isinstance(node, ast.For | ast.While | ast.With | ast.Try | ast.Delete | ast.Raise)
            guard = isinstance(node, ast.If) and not (
                "TYPE_CHECKING" in ast.unparse(node.test) or "__name__" in ast.unparse(node.test)
            )
            call = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
            if acts or guard or call:
                bad.append(f"{one.name}:{node.lineno} does something on import")
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                text = ast.unparse(node.value)
                for word in ("open(", "os.environ", "getenv", "Thread(", "get_event_loop", "socket.socket("):
                    if word in text:
                        bad.append(f"{one.name}:{node.lineno} touches the world on import: {word}")
    clean(bad, "importing does nothing")


def test_broad_excepts_only_at_borders() -> None:
    bad = []
    for one in (s for s in SOURCES if s.name not in BORDERS):
        lines = one.text.splitlines()
        for node in one.walk():
            if isinstance(node, ast.ExceptHandler) and (node.type is None or ast.unparse(node.type) == "Exception"):
                said = lines[node.lineno - 1]
                if "boundary" not in said and "border" not in said:
                    bad.append(f"{one.name}:{node.lineno} catches everything")
    clean(bad, "`except Exception` stands at borders, which say so")


def test_one_clock() -> None:
    """Time comes from `clock.Clock`, so that tests can own it. (The command line may measure itself.)"""
    bad = []
    for one in (s for s in SOURCES if s.name != "clock.py" and s.layer not in ("cli", "testing")):
        for node in one.walk():
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                where, what = ast.unparse(node.func.value), node.func.attr
                if (where == "time" and what in CLOCKS) or (where == "asyncio" and what == "sleep"):
                    bad.append(f"{one.name}:{node.lineno} asks the clock behind `Clock`'s back")
    clean(bad, "one clock")


def test_every_file_says_what_it_is() -> None:
    bad = [f"{one.name} has no docstring" for one in SOURCES if not ast.get_docstring(one.tree)]
    bad += [f"{one.name}: a word that says nothing" for one in SOURCES if Path(one.name).stem in EMPTY_WORDS]
    clean(bad, "every file says what it is")


def test_prints_only_in_cli() -> None:
    bad = [
        f"{one.name}:{node.lineno} prints"
        for one in SOURCES
        if one.layer not in ("cli", "testing")
        for node in one.walk()
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "print"
    ]
    clean(bad, "only the command line prints")


def test_version_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom palinurus.cli.main import main\n"
        "try: main(['--version'])\nexcept SystemExit: pass\n"
        "bad = {'asyncio','aiohttp','msgspec','argparse','json','sqlite3','logging'} & set(sys.modules)\n"
        "print(sorted(bad), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]", done.stderr


def test_nothing_names_a_registry_or_this_machine() -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    hosts = ["pypi" + ".org", "registry.npm" + "js", "files.python" + "hosted"]
    words = re.compile("|".join([*map(re.escape, hosts), r"(?<![\w~.])/(?:wo" + "rk|ro" + "ot)/"]))
    bad = []
    for line in tracked.splitlines():
        path = ROOT / line
        if path.suffix in (".py", ".md", ".toml", ".txt", ".json", ".yml", "") and path.is_file():
            found = words.search(path.read_text(encoding="utf-8", errors="replace"))
            if found:
                bad.append(f"{line} names {found[0]}")
    clean(bad, "no registry's host and no path of this machine")


def test_what_is_decided_about_a_message_is_decided_once() -> None:
    """`inbox/message.py` routes a message and reads its directives; everybody else gets what it found. (A configured
    prompt is no message: `core/levels/parse.py` reads its directives.)"""
    calls = [
        f"{one.name}:{node.lineno} calls {called}"
        for one in SOURCES
        for node in one.walk()
        if isinstance(node, ast.Call)
        and (called := ast.unparse(node.func).split(".")[-1]) in ("route_inbound", "parse_directives")
        and one.name != "core/levels/parse.py"
    ]
    assert len(calls) == 2 and all(call.startswith("inbox/message.py:") for call in calls), calls
