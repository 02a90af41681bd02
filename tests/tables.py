"""Rows of a table that need nothing but themselves run as one test: `pytest --tables`, as `make test` does.

A test costs the runner and its worker two milliseconds, more than most rows do. All rows run, and those that fail are
named; without the option, or with a name in brackets, each is a test of its own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest


def join_rows(items: list[pytest.Item]) -> list[pytest.Item]:
    """The same tests, where each table that can be is one."""
    found: dict[Any, list[pytest.Function]] = {}
    for item in items:
        if isinstance(item, pytest.Function) and _stands_alone(item):
            found.setdefault((item.parent, item.originalname), []).append(item)
        else:
            found[item] = []
    return [key if isinstance(key, pytest.Item) else _join(rows) for key, rows in found.items()]


def _stands_alone(item: pytest.Function) -> bool:
    """Is it a row without fixtures, marks or a loop of its own?"""
    spec = getattr(item, "callspec", None)
    if spec is None or spec.marks or item.cls or getattr(item.obj, "is_hypothesis_test", False):
        return False
    if inspect.iscoroutinefunction(item.obj) or "request" in item.fixturenames:
        return False
    for name, (*_, last) in item._fixtureinfo.name2fixturedefs.items():  # the only way to them
        own = name in spec.params and last.func.__module__ == "_pytest.python"  # a plain value
        if not own and (last.scope != "session" or name in spec.params):
            return False
    return True


def _join(rows: list[pytest.Function]) -> pytest.Item:
    first = rows[0]
    if len(rows) == 1:
        return first
    joined = pytest.Function.from_parent(first.parent, name=first.originalname, callobj=_make_test(rows))
    joined.own_markers[:] = [mark for mark in first.own_markers if mark.name != "parametrize"]
    return joined


def _make_test(rows: list[pytest.Function]) -> Callable[[], None]:
    cases = [(row.name, row.obj, row.callspec.params) for row in rows]

    def test_table() -> None:
        wrong: list[Exception] = []
        skipped: list[str] = []
        for name, run, params in cases:
            try:
                run(**params)
            except Exception as exc:  # a row that fails keeps no other from being looked at
                exc.add_note(name)
                wrong.append(exc)
            except pytest.skip.Exception as exc:
                skipped.append(str(exc))
        if wrong:
            raise wrong[0] if len(wrong) == 1 else ExceptionGroup(f"{len(wrong)} rows of {len(cases)}", wrong)
        if skipped:
            pytest.skip("; ".join(dict.fromkeys(skipped)))  # the others ran; what was not tested is told

    test_table.__doc__ = cases[0][1].__doc__
    test_table.__wrapped__ = cases[0][1]  # type: ignore[attr-defined]  # what looks at the source finds it
    test_table.__signature__ = inspect.Signature()  # type: ignore[attr-defined]
    return test_table
