"""A PostgreSQL for the tests that have both kinds of state."""

from __future__ import annotations

from store.postgres.conftest import server

__all__ = ("server",)
