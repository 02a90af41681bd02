"""Fences: what opens, what closes."""

from __future__ import annotations

import pytest

from palinurus.core.stream.code import Fence, closes, opens


@pytest.mark.parametrize("line", ["```", "```js", "~~~~", "   ```py title=x", "\t~~~ a`b"])
def test_opens(line: str) -> None:
    assert opens(line) is not None


@pytest.mark.parametrize("line", ["``", "```a```", "text ```", "", "~~"])
def test_does_not_open(line: str) -> None:
    assert opens(line) is None


def test_closes() -> None:
    fence = Fence("", "````")
    assert closes("````", fence) and closes("  ````` ", fence)
    assert not closes("```", fence) and not closes("~~~~", fence) and not closes("````x", fence)


def test_the_line_that_opens_it_again_is_short() -> None:
    fence = opens(f"  ```python {'x' * 200}")
    assert fence is not None
    assert (fence.opening, fence.closing) == ("  ```python", "  ```")
    assert len(Fence(" " * 99, "`" * 99, "y" * 99).opening) <= 56
