"""The ratchet: layers, purity, sizes, names, imports at the top, nothing on import. No exception list.

Every test walks trees that are parsed once (tests/sources.py) and names all places that break its rule.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from names import measure
from palinurus.late import PARTS
from sources import Source, sources

ROOT = Path(__file__).parents[1]

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
beneath | taping
errors | abort | clock | crashpoints | late | tasks | backoff | files | cachefile | patterns
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
    ".": 1_262,
    "agent": 9_778,
    "app": 5_069,
    "channels": 14_535,
    "cli": 21_407,
    "config": 9_985,
    "core": 19_717,
    "gateway": 17_035,
    "inbox": 6_520,
    "outbox": 2_561,
    "plugins": 1_560,
    "providers": 11_967,
    "services": 5_777,
    "sessions": 3_200,
    "store": 5_330,
    "testing": 11_800,
    "tools": 21_922,
    "triggers": 1_871,
    "workspace": 3_183,
}


def dotted(node: ast.expr) -> str:
    """`a.b.c` of names and attributes; a call or a subscript in front of it is a question mark."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"


def clean(found: list[str], rule: str) -> None:
    assert not found, rule + ":\n" + "\n".join(found)


def imports(one: Source) -> Iterator[tuple[str, int]]:
    for child in one.nodes(ast.Import):
        yield from ((alias.name, child.lineno) for alias in child.names)
    for child in one.nodes(ast.ImportFrom):
        assert child.level == 0, f"relative import in line {child.lineno}"
        yield child.module or "", child.lineno
        if child.module == "palinurus":
            yield from ((f"palinurus.{alias.name}", child.lineno) for alias in child.names)


def layer(dotted: str) -> str | None:
    parts = dotted.split(".")
    return parts[1] if parts[0] == "palinurus" and len(parts) > 1 else None


def test_layers() -> None:
    bad = []
    for one in sources():
        if one.layer in ("__init__", "__main__"):
            continue
        if one.layer not in RANK:
            bad.append(f"{one.name} stands in no line of the layer table")
            continue
        for module, line in imports(one):
            other = layer(module)
            if other is None or other in (one.layer, "__init__", "__version__"):
                continue
            if other not in RANK or RANK[other] <= RANK[one.layer]:
                bad.append(f"{one.name}:{line} may not import {module}")
    clean(bad, "top may import lower lines only")


def test_purity() -> None:
    bad = []
    for one in (s for s in sources() if s.name.startswith(PURE)):
        for module, line in imports(one):
            if module.split(".")[0] in IMPURE or module.startswith("palinurus.abort"):
                bad.append(f"{one.name}:{line} imports {module}")
        for node in one.nodes(ast.AsyncFunctionDef, ast.Await):
            bad.append(f"{one.name}:{node.lineno} is async")
    clean(bad, f"{', '.join(PURE)} are pure")


def test_sizes() -> None:
    bad = []
    for one in sources():
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
    for folder, count in Counter(one.folder for one in sources()).items():
        if count > FOLDER_FILES:
            bad.append(f"{folder}/ has {count} files")
    clean(bad, "files, functions and folders stay small")


def test_tiny_files_belong_to_their_only_user() -> None:
    """A file of a few lines that one neighbour imports costs a reader a hop and gives nothing."""
    known = {one.module: one for one in sources()}
    users: defaultdict[str, set[str]] = defaultdict(set)
    for one in sources():
        for node in one.nodes(ast.ImportFrom):
            if node.module:
                for alias in node.names:
                    whole = f"{node.module}.{alias.name}"
                    users[whole if whole in known else node.module].add(one.name)
    bad = []
    for one in sources():
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
    for node in one.nodes(ast.Import, ast.ImportFrom, ast.Expr):
        if not isinstance(node, ast.Expr) or (
            isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        ):
            other.update(range(node.lineno, (node.end_lineno or 0) + 1))
    rows = enumerate(one.text.splitlines(), 1)
    return sum(at not in other and bool(row.strip()) and not row.lstrip().startswith("#") for at, row in rows)


def test_names() -> None:
    """A class is named once in the tree; a function says what it does (`names.py` prints the figures)."""
    found = measure((one.name, one.text, one.tree) for one in sources())
    clean(list(found.shared), "class names that two modules define")
    clean(list(found.participles), "functions that begin with what has been done")
    assert len(found.one_word) <= 0.15 * len(found.functions), found.one_word


def test_no_mutable_globals() -> None:
    """What a module holds at its top is a constant: state belongs to objects that somebody makes and hands on."""
    changing = {"append", "add", "update", "pop", "setdefault", "clear", "remove", "extend", "discard", "popitem"}
    bad = []
    for one in sources():
        own = {
            target.id
            for node in one.tree.body
            if isinstance(node, ast.Assign | ast.AnnAssign)
            for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
            if isinstance(target, ast.Name)
        }
        bad += [f"{one.name}:{node.lineno} global {', '.join(node.names)}" for node in one.nodes(ast.Global)]
        for node in one.nodes(ast.Assign, ast.Delete, ast.AugAssign, ast.Call):
            targets: list[ast.expr] = []
            if isinstance(node, ast.Assign | ast.Delete):
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
    for one in sources():
        for node in one.tree.body:
            if isinstance(node, ast.ClassDef):
                taking[node.name] = False
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                taking[node.name] = taking.get(node.name, False) or node.args.vararg is not None
    bad = []
    for one in sources():
        rows = {
            id(call) for top in one.tree.body if isinstance(top, ast.Assign | ast.AnnAssign) for call in ast.walk(top)
        }
        for call in one.nodes(ast.Call):
            if len(call.args) <= POSITIONAL or id(call) in rows:
                continue
            name = dotted(call.func)
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
    for one in sources():
        lines[one.layer if one.folder else "."] += len(one.text.splitlines())
    bad = [
        f"{name} has {count} lines, {LINES.get(name, 0)} are its budget"
        for name, count in lines.items()
        if count > LINES.get(name, 0)
    ]
    clean(bad, "merge or delete as much as you add")


def test_imports_at_the_top() -> None:
    bad = []
    for one in (s for s in sources() if s.name not in LAZY):
        spans = [range(function.lineno, (function.end_lineno or 0) + 1) for function in one.functions()]
        for found in one.nodes(ast.Import, ast.ImportFrom):
            if any(found.lineno in span for span in spans):
                bad.append(f"{one.name}:{found.lineno} imports inside a function")
        for node in one.nodes(ast.Call):
            if dotted(node.func) in ("import_module", "importlib.import_module", "__import__"):
                bad.append(f"{one.name}:{node.lineno} loads a module by name")
    clean(bad, "imports stand at the top; what loads late is a row of a table")


def test_parts_that_load_late_keep_to_the_layers() -> None:
    """`late.py` is the one table for what an idle program does not need (it was a third of its start): every use of a
    row is an import, and is held to what imports are held to."""
    bad, used = [], 0
    for one in (s for s in sources() if "late.load_part(" in s.text):
        for node in one.nodes(ast.Call):
            if dotted(node.func) == "late.load_part":
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
    for one in sources():
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
    for one in (s for s in sources() if s.name not in BORDERS):
        lines = one.text.splitlines()
        for node in one.nodes(ast.ExceptHandler):
            if node.type is None or dotted(node.type) == "Exception":
                said = lines[node.lineno - 1]
                if "boundary" not in said and "border" not in said:
                    bad.append(f"{one.name}:{node.lineno} catches everything")
    clean(bad, "`except Exception` stands at borders, which say so")


def test_one_way_to_open_a_file_of_a_workspace() -> None:
    """Who runs commands there can swap a name for a link at any moment: `beneath.py` opens by handle. A file that knows
    workspaces opens nothing by name, but what is the program's own, and says so."""
    names = {"open", "os.open", "open_plain_file", "read_plain_file", "write_whole_file"}
    names |= {f"shutil.{verb}" for verb in ("copy", "copyfile", "copytree", "move", "rmtree")}
    bad = []
    for one in (
        s for s in sources() if s.layer not in ("testing", "beneath", "cli") and re.search("workspace", s.text)
    ):
        lines = one.text.splitlines()
        words = {getattr(node, "id", getattr(node, "attr", getattr(node, "arg", ""))) for node in one.everything()}
        if not any("workspace" in str(word) for word in words):
            continue
        for node in one.nodes(ast.Call):
            if dotted(node.func) in names:
                by_handle = {"dir_fd", "folder"} & {str(keyword.arg) for keyword in node.keywords}
                if not by_handle and "our own" not in lines[node.lineno - 1]:
                    bad.append(f"{one.name}:{node.lineno} opens by name: {ast.unparse(node)[:80]}")
    clean(bad, "files of a workspace are opened by `beneath.py`")


def test_one_clock() -> None:
    """Time comes from `clock.Clock`, so that tests can own it. (The command line may measure itself.)"""
    bad = []
    for one in (s for s in sources() if s.name != "clock.py" and s.layer not in ("cli", "testing")):
        for node in one.nodes(ast.Call):
            if isinstance(node.func, ast.Attribute):
                where, what = dotted(node.func.value), node.func.attr
                if (where == "time" and what in CLOCKS) or (where == "asyncio" and what == "sleep"):
                    bad.append(f"{one.name}:{node.lineno} asks the clock behind `Clock`'s back")
    clean(bad, "one clock")


def test_every_file_says_what_it_is() -> None:
    bad = [f"{one.name} has no docstring" for one in sources() if not ast.get_docstring(one.tree)]
    bad += [f"{one.name}: a word that says nothing" for one in sources() if Path(one.name).stem in EMPTY_WORDS]
    clean(bad, "every file says what it is")


def test_prints_only_in_cli() -> None:
    bad = [
        f"{one.name}:{node.lineno} prints"
        for one in sources()
        if one.layer not in ("cli", "testing")
        for node in one.nodes(ast.Call)
        if dotted(node.func) == "print"
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
        for one in sources()
        for node in one.nodes(ast.Call)
        if (called := dotted(node.func).split(".")[-1]) in ("route_inbound", "parse_directives")
        and one.name != "core/levels/parse.py"
    ]
    assert len(calls) == 2 and all(call.startswith("inbox/message.py:") for call in calls), calls
