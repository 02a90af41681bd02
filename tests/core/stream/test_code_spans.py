"""Where the code is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.core.stream.code import CodeSpans


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("no code", ""),
        ("a `b` c", "`b`"),
        ("a ``b ` c`` d", "``b ` c``"),
        ("a ` b", ""),
        ("`a\nb`", ""),
        ("`a` b `c`", "`a``c`"),
        ("```\nx\n```\ny", "```\nx\n```"),
        ("```py\nx", "```py\nx"),
        ("~~~\n```\n~~~ y\n~~~\nz", "~~~\n```\n~~~ y\n~~~"),
        ("````\n```\n````\nz", "````\n```\n````"),
        ("x ```y``` z", "```y```"),
    ],
)
def test_spans(text: str, code: str) -> None:
    found = CodeSpans(text)
    assert "".join(c for at, c in enumerate(text) if found.holds(at)) == code


@given(st.text(alphabet="`~ \na", max_size=60))
def test_any_text(text: str) -> None:
    found = CodeSpans(text)
    assert all(text[at] != "\n" or "```" in text or "~~~" in text for at in range(len(text)) if found.holds(at))
