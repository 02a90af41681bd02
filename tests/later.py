"""Modules that take long to import, for tests that name them at their top: imported when first used.

Every worker loads every test file, and runs half of the tests."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class LaterModule:
    """Looks like the module. pytest asks every name of a test file what it is: that alone loads nothing."""

    _mock_name = None

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(import_module(self._name), name)
