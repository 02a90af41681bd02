"""What calls cost, and that unknown is not nothing."""

from __future__ import annotations

import datetime
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.config.sections.models import ModelSettings, ProviderSettings
from palinurus.core.types.keys import ModelRef
from palinurus.core.types.messages import AssistantMessage, TextBlock
from palinurus.core.types.model import TokenPrice
from palinurus.core.types.usage import TokenCost, TokenUsage
from palinurus.providers import VENDORS
from palinurus.providers.catalog import Catalog
from palinurus.providers.prices import PriceRow, add_cost, find_price, load_prices
from providers.kit import agent, info, settings


def rows() -> list[tuple[str, str, PriceRow]]:
    return [(p, m, row) for p, models in load_prices().prices.items() for m, row in models.items()]


def test_the_file_is_dated_and_sane() -> None:
    assert datetime.date.fromisoformat(load_prices().as_of).year >= 2026
    assert set(load_prices().prices) <= set(VENDORS)
    for provider, model, row in rows():
        for part in (row, row.long):
            if part is not None:
                assert 0 < part.input <= part.output <= 1000, (provider, model)
                assert part.cacheRead is None or part.cacheRead < part.input
        assert (row.long is None) == (row.above == 0)
        if row.long is not None:
            assert row.long.input > row.input


def test_known_models() -> None:
    assert find_price(ModelRef("anthropic", "claude-opus-4-8")) == TokenPrice(5, 25, 0.5, 6.25)
    assert find_price(ModelRef("anthropic", "claude-opus-4-5-20251101")) == TokenPrice(5, 25, 0.5, 6.25)
    assert find_price(ModelRef("openai", "gpt-5.4-2026-03-05")) == find_price(ModelRef("openai", "gpt-5.4"))
    assert find_price(ModelRef("anthropic", "claude-next")) is None
    assert find_price(ModelRef("nobody", "gpt-5.4")) is None


def test_a_cache_price_nobody_states_is_the_input_price() -> None:
    pro = find_price(ModelRef("openai", "gpt-5.2-pro"))
    assert pro is not None and pro.cacheRead == pro.cacheWrite == pro.input


def test_arithmetic() -> None:
    price = TokenPrice(3, 15, 0.3, 3.75)
    assert price.compute_cost(TokenUsage(1_000_000, 100_000, 2_000_000, 400_000)) == TokenCost(3.0, 1.5, 0.6, 1.5, 6.6)
    long = TokenPrice(1, 2, above=100, long=TokenPrice(10, 20))
    assert long.compute_cost(TokenUsage(100, 1)).total == pytest.approx(102 / 1e6)
    assert long.compute_cost(TokenUsage(50, 1, 25, 26)).input == pytest.approx(500 / 1e6)


def test_the_message_gets_its_cost_once_and_only_if_it_is_known() -> None:
    said = AssistantMessage((TextBlock("x"),), usage=TokenUsage(10, 5))
    assert add_cost(said, info()).usage.cost is None
    done = add_cost(said, info(price=TokenPrice(1, 1)))
    assert done.usage.cost is not None and done.usage.cost.total == pytest.approx(15e-6)
    assert add_cost(done, info(price=TokenPrice(9, 9))) is done
    assert (
        add_cost(AssistantMessage(()), info(price=TokenPrice(1, 1))).usage.cost is None
    )  # nothing was used, nothing is claimed


def test_the_config_s_cost_wins_and_free_is_a_price() -> None:
    own = ProviderSettings("openai", models=(ModelSettings("gpt-5.4", cost={"input": 9, "output": 9}),))
    local = ProviderSettings("lab", "http://127.0.0.1:1", models=(ModelSettings("q", cost={"input": 0, "output": 0}),))
    other = ProviderSettings("odd", "http://127.0.0.1:1", models=(ModelSettings("q"),))
    catalog = Catalog(settings(own, local, other), {})
    prices = {
        name: catalog.find(name, agent()).price for name in ("openai/gpt-5.4", "lab/q", "odd/q", "openai/gpt-5.5")
    }  # type: ignore[union-attr]
    assert prices["openai/gpt-5.4"] == TokenPrice(9, 9) and prices["lab/q"] == TokenPrice() and prices["odd/q"] is None
    assert prices["openai/gpt-5.5"] == find_price(ModelRef("openai", "gpt-5.5"))


@given(st.builds(TokenUsage, *[st.integers(0, 10**9)] * 4), st.builds(TokenPrice, *[st.floats(0, 1000)] * 4))
def test_the_sum_is_the_sum_and_never_negative(usage: TokenUsage, price: TokenPrice) -> None:
    got = price.compute_cost(usage)
    assert got.total >= 0 and math.isclose(got.total, got.input + got.output + got.cacheRead + got.cacheWrite)
