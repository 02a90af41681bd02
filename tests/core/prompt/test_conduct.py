from __future__ import annotations

import pytest

from core.prompt.kit import full, tools
from palinurus.core.prompt.conduct import (
    strip_lines,
    write_control,
    write_execution_bias,
    write_safety,
    write_self_update,
)
from palinurus.core.prompt.facts import PromptFacts


@pytest.mark.seed(200)
def test_execution_bias() -> None:
    text = write_execution_bias(PromptFacts())
    assert "acted on in this turn" in text  # act
    assert "until it is done or truly blocked" in text  # go on
    assert "weak or empty tool result" in text  # recover
    assert "looked up now, not remembered" in text  # live state
    assert "Before you finish, verify" in text


@pytest.mark.seed(169, 201)
def test_safety_is_short() -> None:
    text = write_safety(PromptFacts())
    assert "no self-preservation" in text and "no gathering of power" in text
    assert "Human oversight comes before" in text
    assert len(text) < 800


@pytest.mark.seed(172, 203)
def test_control_prefers_the_gateway_tool_and_forbids_invention() -> None:
    text = write_control(full())
    assert "Prefer the `gateway` tool" in text and "settings" in text and "restarts" in text
    assert "never invent commands" in text and "`pal --help`" in text
    assert "`gateway` tool" not in write_control(PromptFacts(tools=tools("read")))


@pytest.mark.seed(204)
def test_self_update() -> None:
    text = write_self_update(full(updates=True))
    assert all(word in text for word in ("config.schema.lookup", "config.patch", "config.apply", "update.run"))
    assert "only when the person explicitly asks" in text
    assert write_self_update(PromptFacts(tools=tools("read"))) == ""
    assert "update.run cannot" in write_self_update(full())  # a wheel has nothing to pull from


def test_plain_takes_away_what_breaks_caches() -> None:
    assert strip_lines("a \r\nb\t\rc\n\n") == "a\nb\nc"
