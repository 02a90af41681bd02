"""Fences: what opens, what closes."""

from __future__ import annotations

import pytest

from palinurus.core.stream.code import CodeFence, is_closing_fence, parse_fence


@pytest.mark.parametrize("line", ["```", "```js", "~~~~", "   ```py title=x", "\t~~~ a`b"])
def test_opens(line: str) -> None:
    assert parse_fence(line) is not None


@pytest.mark.parametrize("line", ["``", "```a```", "text ```", "", "~~"])
def test_does_not_open(line: str) -> None:
    assert parse_fence(line) is None


def test_closes() -> None:
    fence = CodeFence("", "````")
    assert is_closing_fence("````", fence) and is_closing_fence("  ````` ", fence)
    assert (
        not is_closing_fence("```", fence)
        and not is_closing_fence("~~~~", fence)
        and not is_closing_fence("````x", fence)
    )


def test_the_line_that_opens_it_again_is_short() -> None:
    fence = parse_fence(f"  ```python {'x' * 200}")
    assert fence is not None
    assert (fence.opening, fence.closing) == ("  ```python", "  ```")
    assert len(CodeFence(" " * 99, "`" * 99, "y" * 99).opening) <= 56
