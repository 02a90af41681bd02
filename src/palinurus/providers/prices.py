"""What a model costs: `prices.json` (dated, by provider and model), and the arithmetic. What is not in it is unpriced.

The config's `cost` goes before this file. Prices are list prices of the standard tier.
"""

from __future__ import annotations

import os
import re
from functools import cache

import msgspec

from palinurus.core.types.keys import ModelRef
from palinurus.core.types.messages import AssistantMessage
from palinurus.core.types.model import ModelSpec, TokenPrice
from palinurus.core.types.usage import TokenUsage
from palinurus.patterns import compile_late

FILE = os.path.join(os.path.dirname(__file__), "prices.json")

_DATED = compile_late(r"-(?:20\d{6}|20\d\d-\d\d-\d\d)$", re.ASCII)


class PriceRow(msgspec.Struct, frozen=True):
    """None: what is read from or written to a cache costs as much as other input."""

    input: float
    output: float
    cacheRead: float | None = None
    cacheWrite: float | None = None
    above: int = 0
    long: PriceRow | None = None


class PriceTable(msgspec.Struct, frozen=True):
    as_of: str
    unit: str
    prices: dict[str, dict[str, PriceRow]]


@cache
def load_prices() -> PriceTable:
    """The file, read once."""
    with open(FILE, "rb") as handle:
        return msgspec.json.decode(handle.read(), type=PriceTable)


def find_price(ref: ModelRef) -> TokenPrice | None:
    """The price of a model, also under an id that carries a date; None when it is not known."""
    models = load_prices().prices.get(ref.provider, {})
    row = models.get(ref.model) or models.get(_DATED.sub("", ref.model))
    return _price(row) if row is not None else None


def add_cost(message: AssistantMessage, model: ModelSpec) -> AssistantMessage:
    """The message with its cost, if the price is known and nobody has put one there."""
    if model.price is None or message.usage.cost is not None or message.usage == TokenUsage():
        return message
    usage = msgspec.structs.replace(message.usage, cost=model.price.compute_cost(message.usage))
    return msgspec.structs.replace(message, usage=usage)


def _price(row: PriceRow) -> TokenPrice:
    return TokenPrice(
        row.input,
        row.output,
        row.input if row.cacheRead is None else row.cacheRead,
        row.input if row.cacheWrite is None else row.cacheWrite,
        above=row.above,
        long=None if row.long is None else _price(row.long),
    )
