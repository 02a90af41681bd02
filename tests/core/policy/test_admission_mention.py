"""Being named in words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.core.policy.admission import find_pattern_problem, is_mentioned, make_name_patterns


@pytest.mark.parametrize("pattern", ["@?pal(?:inurus)?", r"\bhelmsman\b", "[*+]x", r"\+?4915", "hey .*bot", "a|b|c"])
def test_patterns_that_can_be_used(pattern: str) -> None:
    assert find_pattern_problem(pattern) == ""


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*b", "(x*)*", "a+b+c+", r"(a)\1", "(", "", "a*", "x" * 201])
def test_patterns_that_cannot(pattern: str) -> None:
    assert find_pattern_problem(pattern) and not is_mentioned("a" * 40 + "xb", (pattern,))


def test_the_agents_name() -> None:
    assert is_mentioned("Hey @Pal, are you there", make_name_patterns("Pal")) and is_mentioned(
        "pal?", make_name_patterns("Pal")
    )
    assert not is_mentioned("palace", make_name_patterns("Pal")) and not is_mentioned("opal", make_name_patterns("Pal"))
    assert make_name_patterns(" ") == () and is_mentioned("C++ please", make_name_patterns("C++"))


@given(st.text(max_size=30), st.text(max_size=60))
def test_no_pattern_and_no_text_breaks_it(pattern: str, text: str) -> None:
    is_mentioned(text, (pattern,))
