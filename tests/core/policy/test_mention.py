"""Being named in words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.core.policy.mention import named, own, problem


@pytest.mark.parametrize("pattern", ["@?pal(?:inurus)?", r"\bhelmsman\b", "[*+]x", r"\+?4915", "hey .*bot", "a|b|c"])
def test_patterns_that_can_be_used(pattern: str) -> None:
    assert problem(pattern) == ""


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*b", "(x*)*", "a+b+c+", r"(a)\1", "(", "", "a*", "x" * 201])
def test_patterns_that_cannot(pattern: str) -> None:
    assert problem(pattern) and not named("a" * 40 + "xb", (pattern,))


def test_the_agents_name() -> None:
    assert named("Hey @Pal, are you there", own("Pal")) and named("pal?", own("Pal"))
    assert not named("palace", own("Pal")) and not named("opal", own("Pal"))
    assert own(" ") == () and named("C++ please", own("C++"))


@given(st.text(max_size=30), st.text(max_size=60))
def test_no_pattern_and_no_text_breaks_it(pattern: str, text: str) -> None:
    named(text, (pattern,))
