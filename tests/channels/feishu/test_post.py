"""Markdown as Feishu's rich text."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from palinurus.channels.feishu.post import write_post


def rows(text: str, *, plain: bool = False) -> list[list[dict[str, Any]]]:
    found: list[list[dict[str, Any]]] = json.loads(write_post(text, plain=plain))["zh_cn"]["content"]
    return found


def text(value: str, *style: str) -> dict[str, Any]:
    return {"tag": "text", "text": value, **({"style": list(style)} if style else {})}


def test_marks_links_and_code_are_elements() -> None:
    assert rows("a **b** ~~c~~") == [[text("a "), text("b", "bold"), text(" "), text("c", "lineThrough")]]
    assert rows("[here](https://x.example)") == [[{"tag": "a", "text": "here", "href": "https://x.example"}]]
    assert rows("# Head\n\n- one\n- two")[0] == [text("Head", "bold")]
    assert rows("- one")[0] == [text("• "), text("one")]
    assert rows("```go\nx := 1\ny\n```") == [[{"tag": "code_block", "language": "go", "text": "x := 1\ny"}]]
    assert rows("> said\n> more") == [[text("> "), text("said")], [text("> "), text("more")]]


def test_nobody_is_called_whatever_is_written() -> None:
    for plain in (False, True):
        (row,) = rows('<at user_id="all">all</at>', plain=plain)
        assert row == [text('<at user_id="all">all</at>')]
    assert rows("**a**\n\nb", plain=True) == [[text("**a**")], [text("")], [text("b")]]


@settings(max_examples=80)
@given(st.text(alphabet='a*_`~[]()#>-\n 漢<@"\\', max_size=60), st.booleans())
def test_every_text_becomes_paragraphs_of_elements(written: str, plain: bool) -> None:
    for row in rows(written, plain=plain):
        assert row and all(one["tag"] in ("text", "a", "code_block") and "text" in one for one in row)
