"""The ratchet: layers, purity, sizes, imports at the top, nothing on import. No exception list."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

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
errors | abort | clock | crashpoints | late | tasks | backoff | files
"""
RANK = {n.strip(): i for i, line in enumerate(LAYERS.strip().splitlines()) for n in line.split("|")}

PURE = ("core", "providers/wire", "providers/vendors")
IMPURE = {"os", "time", "asyncio", "pathlib", "random", "logging", "aiohttp", "socket", "subprocess", "threading", "io"}
LAZY = {"__init__.py", "providers/__init__.py", "channels/__init__.py", "plugins/load.py", "cli/main.py", "late.py"}
BORDERS = {"tools/call.py", "plugins/hooks.py"}  # besides task boundaries, which say so
CLOCKS = {"time", "monotonic", "time_ns", "monotonic_ns", "perf_counter", "sleep"}

FILES = sorted(SRC.rglob("*.py"))
FILE_LINES, FUNCTION_LINES, PARAMETERS = 400, 60, 7


def name(path: Path) -> str:
    return path.relative_to(SRC).as_posix()


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


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


@pytest.mark.parametrize("path", FILES, ids=name)
def test_layers(path: Path) -> None:
    own = path.relative_to(SRC).parts[0].removesuffix(".py")
    if own in ("__init__", "__main__"):
        return
    assert own in RANK, f"{own} stands in no line of the layer table"
    for module, line in imports(tree(path)):
        other = layer(module)
        if other is None or other in (own, "__init__", "__version__"):
            continue
        assert other in RANK, f"{name(path)}:{line} imports {module}, which stands in no line"
        assert RANK[other] > RANK[own], f"{name(path)}:{line} may not import {module}"


@pytest.mark.parametrize("path", [p for p in FILES if name(p).startswith(PURE)], ids=name)
def test_purity(path: Path) -> None:
    module = tree(path)
    bad = [f"{m}:{n}" for m, n in imports(module) if m.split(".")[0] in IMPURE or m.startswith("palinurus.abort")]
    assert not bad, f"{name(path)} imports {bad}"
    waits = [n.lineno for n in ast.walk(module) if isinstance(n, ast.AsyncFunctionDef | ast.Await)]
    assert not waits, f"{name(path)} is async in lines {waits}"


@pytest.mark.parametrize("path", FILES, ids=name)
def test_sizes(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= FILE_LINES, f"{name(path)} has {lines} lines"
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            size = (node.end_lineno or 0) - node.lineno + 1
            assert size <= FUNCTION_LINES, f"{name(path)}:{node.lineno} {node.name} has {size} lines"
            args = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            count = len([a for a in args if a.arg not in ("self", "cls")])
            assert count <= PARAMETERS, f"{name(path)}:{node.lineno} {node.name} takes {count} parameters"


@pytest.mark.parametrize("path", FILES, ids=name)
def test_imports_at_the_top(path: Path) -> None:
    module = tree(path)
    deferred = [
        inner.lineno
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for inner in ast.walk(node)
        if isinstance(inner, ast.Import | ast.ImportFrom)
    ]
    dynamic = [
        n.lineno
        for n in ast.walk(module)
        if isinstance(n, ast.Call) and ast.unparse(n.func) in ("import_module", "importlib.import_module", "__import__")
    ]
    allowed = name(path) in LAZY
    assert not deferred or allowed, f"{name(path)} imports inside functions, lines {deferred}"
    assert not dynamic or allowed, f"{name(path)} loads modules by name, lines {dynamic}"


def test_parts_that_load_late_keep_to_the_layers() -> None:
    """`late.py` is the one table for what an idle program does not need (it was a third of its start): every use of a
    row is an import, and is held to what imports are held to."""
    for path in (path for path in FILES if "late.load_part(" in path.read_text(encoding="utf-8")):
        own = path.relative_to(SRC).parts[0].removesuffix(".py")
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "late.load_part":
                assert isinstance(node.args[0], ast.Constant), f"{name(path)}:{node.lineno} asks for no row by name"
                other = layer(PARTS[node.args[0].value].partition(":")[0])
                fine = other in (None, own) or RANK[str(other)] > RANK[own]
                assert fine, f"{name(path)}:{node.lineno} may not ask for {node.args[0].value}"


@pytest.mark.parametrize("path", FILES, ids=name)
def test_nothing_happens_on_import(path: Path) -> None:
    """At module level: definitions, constants, tables. No loops, no opening, no environment."""
    for node in tree(path).body:
        bad = isinstance(node, ast.For | ast.While | ast.With | ast.Try | ast.Delete | ast.Raise)
        guard = isinstance(node, ast.If) and not (
            "TYPE_CHECKING" in ast.unparse(node.test) or "__name__" in ast.unparse(node.test)
        )
        call = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
        assert not (bad or guard or call), f"{name(path)}:{node.lineno} does something on import"
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            text = ast.unparse(node.value)
            for word in ("open(", "os.environ", "getenv", "Thread(", "get_event_loop", "socket.socket("):
                assert word not in text, f"{name(path)}:{node.lineno} touches the world on import: {word}"


@pytest.mark.parametrize("path", FILES, ids=name)
def test_broad_excepts_only_at_borders(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ExceptHandler):
            kinds = ast.unparse(node.type) if node.type else "bare"
            if kinds in ("Exception", "bare"):
                said = "boundary" in lines[node.lineno - 1] or "border" in lines[node.lineno - 1]
                assert name(path) in BORDERS or said, f"{name(path)}:{node.lineno} catches everything"


@pytest.mark.parametrize("path", [p for p in FILES if name(p) not in ("clock.py",)], ids=name)
def test_one_clock(path: Path) -> None:
    """Time comes from `clock.Clock`, so that tests can own it. (The command line may measure itself.)"""
    if name(path).startswith(("cli/", "testing/")):
        return
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            where = ast.unparse(node.func.value)
            bad = (where == "time" and node.func.attr in CLOCKS) or (where == "asyncio" and node.func.attr == "sleep")
            assert not bad, f"{name(path)}:{node.lineno} asks the clock behind `Clock`'s back"


@pytest.mark.parametrize("path", FILES, ids=name)
def test_every_file_says_what_it_is(path: Path) -> None:
    assert ast.get_docstring(tree(path)), f"{name(path)} has no docstring"
    forbidden = {"utils", "helpers", "manager", "service", "common", "base", "misc"}
    assert path.stem not in forbidden, f"{name(path)}: a word that says nothing"


def test_prints_only_in_cli() -> None:
    for path in FILES:
        if not name(path).startswith(("cli/", "testing/")):
            calls = [n for n in ast.walk(tree(path)) if isinstance(n, ast.Call) and ast.unparse(n.func) == "print"]
            assert not calls, f"{name(path)}:{calls[0].lineno} prints"


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
    for line in tracked.splitlines():
        path = ROOT / line
        if path.suffix in (".py", ".md", ".toml", ".txt", ".json", ".yml", "") and path.is_file():
            text = path.read_text(encoding="utf-8", errors="replace")
            found = words.search(text)
            assert not found, f"{line} names {found[0]}"


@pytest.mark.parametrize(
    ("name_", "where"), [("route_inbound", "inbox/message.py"), ("parse_directives", "inbox/message.py")]
)
def test_what_is_decided_about_a_message_is_decided_once(name_: str, where: str) -> None:
    """`inbox/message.py` routes a message and reads its directives; everybody else gets what it found. (A configured
    prompt is no message: `core/levels/parse.py` reads its directives.)"""
    for path in FILES:
        if name(path) != "core/levels/parse.py":
            calls = [
                n.lineno
                for n in ast.walk(tree(path))
                if isinstance(n, ast.Call) and ast.unparse(n.func).split(".")[-1] == name_
            ]
            assert len(calls) == (name(path) == where), f"{name(path)} calls {name_} in lines {calls}"
