"""A PostgreSQL for the judge's tests."""

from __future__ import annotations

from store.postgres.conftest import fleet, server

__all__ = ("fleet", "server")
