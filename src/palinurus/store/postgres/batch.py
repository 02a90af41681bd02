"""Changes on their way to the server: several make one batch, JSON with their bytes beside it."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from palinurus.errors import StateError


class ChangeOp(msgspec.Struct):
    """A change on its way: the server's `op`, its bytes, and who waits for it."""

    op: dict[str, Any]
    blobs: list[bytes]
    done: asyncio.Future[Any]


def encode_batch(ops: list[ChangeOp]) -> tuple[str, list[bytes]]:
    """The batch as JSON and its bytes. Each change counts its own from 1; here they follow one another."""
    blobs: list[bytes] = []
    made = []
    for one in ops:
        made.append(_shift(one.op, len(blobs)))
        blobs += one.blobs
    told = msgspec.json.encode(made)
    if b"\\u0000" in told:  # PostgreSQL's text cannot hold it
        told = msgspec.json.encode(_without_zero(made))
    return told.decode(), blobs


class BlobPlace(int):
    """The place of a change's bytes among its own, from 1."""


def _shift(value: Any, by: int) -> Any:
    if isinstance(value, BlobPlace):
        return int(value) + by
    if isinstance(value, dict):
        return {key: _shift(one, by) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_shift(one, by) for one in value]
    return value


def _without_zero(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("\0", "\N{REPLACEMENT CHARACTER}")
    if isinstance(value, dict):
        return {key: _without_zero(one) for key, one in value.items()}
    return [_without_zero(one) for one in value] if isinstance(value, list) else value


def refuse_changes(ops: list[ChangeOp], error: StateError | None) -> None:
    """Whoever still waits for one of them hears why nothing comes of it."""
    assert error is not None
    for one in ops:
        if not one.done.done():
            one.done.set_exception(type(error)(error.message, fix=error.fix))
