"""Small changes to a source file that a good test suite notices. Pure: text in, changed texts out.

Each operator looks at one node of the tree and yields what to put in its place. What only tells people something (log
lines, docstrings, crash points, messages of errors) is left alone: nobody's work depends on it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import NamedTuple

QUIET = ("log", "pass_crashpoint", "warnings")  # calls that leave nothing behind
SWAPS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
SUMS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr,
}  # fmt: skip


class Mutant(NamedTuple):
    """A changed file. `scope` is the function it is in ("" for the module), `lines` where tests must come by."""

    file: str
    line: int
    what: str
    scope: str
    lines: range
    source: str

    @property
    def name(self) -> str:
        return f"{self.file}:{self.line}: {self.what}"


def _root_name(node: ast.AST) -> str:
    while isinstance(node, ast.Attribute | ast.Call | ast.Await):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _is_crashpoint(text: str) -> bool:
    return "crashpoint" in text or text.startswith(("tx.before.append(", "tx.after.append("))


def _drop_statement(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    match node:
        case ast.Expr(ast.Constant() | ast.Yield()):
            return
        case ast.Expr(value) if _root_name(value) in QUIET or _is_crashpoint(ast.unparse(value)):
            return
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript(), *_]) | ast.Expr() | ast.AugAssign() | ast.Delete():
            yield "dropped", ast.Pass()
        case ast.Raise(exc) if exc is not None:
            yield "not raised", ast.Pass()
        case ast.Continue() | ast.Break():
            yield "dropped", ast.Pass()
        case ast.Return(ast.Constant(bool() as value)):
            yield f"returns {not value}", ast.Return(ast.Constant(not value))
        case ast.Return(value) if value is not None and not isinstance(value, ast.Constant):
            yield "returns None", ast.Return(ast.Constant(None))


def _turn_condition(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    match node:
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) if not isinstance(test, ast.Constant):
            yield "condition negated", _with(node, test=ast.UnaryOp(ast.Not(), test))
        case ast.Assert() | ast.BoolOp(values=[ast.Attribute(attr="strerror"), *_]):  # how it is said to people
            return
        case ast.BoolOp(op, values):
            for at in range(len(values)):
                rest = [value for n, value in enumerate(values) if n != at]
                yield f"without `{ast.unparse(values[at])}`", rest[0] if len(rest) == 1 else ast.BoolOp(op, rest)
        case ast.Compare(ops=[op]) if type(op) in SWAPS and not isinstance(op, ast.Is | ast.IsNot):
            yield f"{type(op).__name__} swapped", _with(node, ops=[SWAPS[type(op)]()])


def _change_value(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    match node:
        case ast.BinOp(op=op) if type(op) in SUMS and not isinstance(node.left, ast.JoinedStr | ast.List | ast.Tuple):
            yield f"{type(op).__name__} swapped", _with(node, op=SUMS[type(op)]())
        case ast.keyword(arg=str(), value=ast.Constant(bool() as value)):
            yield f"{node.arg}={not value}", _with(node, value=ast.Constant(not value))
        case ast.Try(finalbody=[_, *_]) if not _tells(node.finalbody):
            body = [*node.body, *node.orelse] if not node.handlers else [_with(node, finalbody=[])]
            yield "no finally", ast.If(ast.Constant(True), body, [])
        case ast.ExceptHandler(body=[first, *_]) if not isinstance(first, ast.Raise):
            yield "not caught", _with(node, body=[ast.Raise()])


OPERATORS: tuple[Callable[[ast.AST], Iterator[tuple[str, ast.AST]]], ...] = (
    _drop_statement, _turn_condition, _change_value,
)  # fmt: skip


def _tells(body: list[ast.stmt]) -> bool:
    return all(isinstance(s, ast.Expr) and _root_name(s.value) in QUIET for s in body)


def _with(node: ast.AST, **changes: object) -> ast.AST:
    fields = {name: getattr(node, name) for name in node._fields if hasattr(node, name)}
    return type(node)(**{**fields, **changes})


def make_mutants(file: str, source: str) -> list[Mutant]:
    """Every mutant of a file, in the order of its lines."""
    tree = ast.parse(source)
    made = [
        Mutant(
            file, place.line, f"{what} in `{place.text}`", place.scope, place.lines, _replace(source, place.node, new)
        )
        for place in _places(tree)
        for operator in OPERATORS
        for what, new in operator(place.node)
    ]
    return [mutant for mutant in made if mutant.source]


def describe_mutants(source: str) -> list[str]:
    """What each of them changes, without making it."""
    changes = ((place, operator) for place in _places(ast.parse(source)) for operator in OPERATORS)
    return [f"{what} in `{place.text}`" for place, operator in changes for what, _ in operator(place.node)]


def make_hand_mutant(file: str, source: str, old: str, new: str) -> Mutant:
    """`old` made `new`. Raises ValueError unless it is there exactly once."""
    if source.count(old) != 1:
        raise ValueError(f"{file}: {old!r} is there {source.count(old)} times")
    line = source[: source.index(old)].count("\n") + 1
    found = [p for p in _places(ast.parse(source)) if line in p.lines]
    scope = found[-1].scope if found else ""
    lines = range(line, line + old.count("\n") + 1)
    said = " ".join(f"`{old}` -> `{new}`".split())
    return Mutant(file, line, said, scope, lines, source.replace(old, new))


class _Place(NamedTuple):
    node: ast.AST
    line: int
    text: str
    scope: str
    lines: range


def _places(tree: ast.Module) -> Iterator[_Place]:
    """The nodes of functions, outermost first."""

    def walk(node: ast.AST, scope: str, lines: range, text: str) -> Iterator[_Place]:
        for child in ast.iter_child_nodes(node):
            if child in (getattr(node, "annotation", None), getattr(node, "returns", None)):
                continue
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                here = f"{scope}.{child.name}" if scope else child.name
                for inner in child.body:
                    if not isinstance(child, ast.ClassDef) or isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                        yield from visit(inner, here, lines, text)
            else:
                yield from visit(child, scope, lines, text)

    def visit(node: ast.AST, scope: str, lines: range, text: str) -> Iterator[_Place]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            holder = ast.Module([node], [])  # type: ignore[list-item]
            yield from walk(holder, scope, lines, text)
            return
        if isinstance(node, ast.match_case):
            lines = range(lines.start, node.body[0].lineno + 1)
        if isinstance(node, ast.stmt):
            head = getattr(node, "test", None) or getattr(node, "iter", None)
            last = (head if head is not None else node).end_lineno or node.lineno
            if isinstance(node, ast.Match):
                last = node.lineno
            elif isinstance(node, ast.Try | ast.With | ast.AsyncWith):
                last = node.body[0].lineno
            lines = range(node.lineno, last + 1)
            text = ast.unparse(node).partition("\n")[0][:90]
        given = scope.endswith("__init__") and isinstance(node, ast.Assign)  # anything notices that
        if scope and not given:
            yield _Place(node, getattr(node, "lineno", lines.start), text, scope, lines)
        if scope:
            yield from walk(node, scope, lines, text)

    yield from walk(tree, "", range(0), "")


def _replace(source: str, node: ast.AST, new: ast.AST) -> str:
    """The text with one node changed; the rest keeps its lines."""
    if isinstance(node, ast.keyword):
        node, new = node.value, new.value  # type: ignore[attr-defined]
    start, end = _offset(source, node.lineno, node.col_offset), _offset(source, node.end_lineno, node.end_col_offset)
    text = ast.unparse(ast.fix_missing_locations(new)).strip()
    old = source.encode()[start:end].decode()
    if isinstance(node, ast.If) and old.startswith("elif"):
        text = f"el{text}"
    if isinstance(node, ast.expr):
        text = f"({text})"
    indent = " " * node.col_offset
    lines = text.split("\n")
    text = "\n".join([lines[0], *(indent + line for line in lines[1:])])
    data = source.encode()
    changed = (data[:start] + text.encode() + data[end:]).decode()
    try:
        ast.parse(changed)
    except SyntaxError:
        return ""
    return changed if changed != source else ""


def _offset(source: str, line: int | None, column: int | None) -> int:
    assert line is not None and column is not None
    lines = source.encode().split(b"\n")
    return sum(len(each) + 1 for each in lines[: line - 1]) + column


HITS = "__hits__"


class _Marker(ast.NodeTransformer):
    """Before each statement of a function: its line is added to a set of the module."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list) and not isinstance(node, ast.Module | ast.ClassDef):
                setattr(node, name, [each for found in block for each in (self._mark(found), found)])
        return node

    def _mark(self, found: ast.stmt) -> ast.stmt:
        call = ast.Call(ast.Attribute(ast.Name(HITS, ast.Load()), "add", ast.Load()), [ast.Constant(found.lineno)], [])
        return ast.fix_missing_locations(ast.copy_location(ast.Expr(call), found))


def mark_lines(source: str) -> ast.Module:
    """The same program, which notes in `__hits__` of its module which lines it passes."""
    marked: ast.Module = _Marker().visit(ast.parse(source))
    return marked
