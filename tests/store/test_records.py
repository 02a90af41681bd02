"""Typed records over the store's rows."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from palinurus.store.factory import open_store
from palinurus.store.records import Records
from palinurus.testing.clock import FakeClock


class Pet(msgspec.Struct, frozen=True):
    name: str
    legs: int = 4


async def test_records_are_kept_changed_by_one_and_passed_over_when_broken(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = await open_store(str(tmp_path), FakeClock(0))
    try:
        pets = Records(store, "pet", Pet)
        assert await pets.get("a") is None and await pets.all() == {}
        await pets.put("a", Pet("Ann"))
        assert await pets.get("a") == Pet("Ann")
        assert await pets.swap("a", Pet("Ann"), Pet("Ann", 3)) and not await pets.swap("a", Pet("Ann"), None)
        assert await pets.swap("b", None, Pet("Bob")) and not await pets.swap("b", None, Pet("Eve"))
        await store.put_record("pet", "c", b"{")
        assert await pets.all() == {"a": Pet("Ann", 3), "b": Pet("Bob")} and "pet/c cannot be read" in caplog.text
        await pets.drop("a")
        assert set(await pets.all()) == {"b"}
    finally:
        await store.close()
