"""Modules that take long to import, for tests that name them at their top: imported when first used.

Every worker loads every test file, and runs half of the tests."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class LaterModule:
    """Looks like the module."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._name), name)
