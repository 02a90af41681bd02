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


def open_openai(port: int, key: str) -> Any:
    """OpenAI's client, of a server on this machine: it need not read whom the machine believes (20 ms)."""
    openai = import_module("openai")
    http = openai.DefaultAsyncHttpxClient(verify=False)
    return openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key=key, max_retries=0, http_client=http)
