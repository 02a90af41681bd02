"""HTML -> markdown and text, in this process: what people see comes out, what is hidden from them does not."""

from __future__ import annotations

import pytest

from palinurus.tools.web.page import extract_page, pick_rows
from tools.web.pages import HOSTILE, SECRET

PAGE = """<!doctype html><html><head><title> The
  title </title><style>p{}</style></head><body><header><a href=/>Home</a></header><nav><a href=/n>Menu</a></nav>
<main><h1>Heading</h1><p>Some <b>bold</b> and a <a href="sub/page?x=1">link</a>.</p>
<ul><li>one</li><li>two</li></ul><pre>def f():

    return 1</pre><table><tr><th>Name</th><th>Age</th></tr><tr><td>Ann</td><td>7</td></tr></table>
<table><tr><th>Born</th><td>1950</td></tr></table><p>A longer paragraph so that this is the main part of the page.</p>
<img src="cat.png" alt="a cat"></main><footer>Imprint</footer></body></html>"""


def read(html: str | bytes, mode: str = "markdown") -> dict[str, str]:
    data = html.encode() if isinstance(html, str) else html
    return extract_page({"mode": mode, "url": "https://example.com/dir/"}, data)


def test_markdown_of_the_main_part() -> None:
    made = read(PAGE)
    text = made["text"]
    assert made["title"] == "The title" or made["title"].split() == ["The", "title"]
    assert text.startswith("# Heading") and "Some **bold** and a [link](https://example.com/dir/sub/page?x=1)." in text
    assert "```\ndef f():\n\n    return 1\n```" in text and "| Ann" in text and "[image: a cat]" in text
    assert "1950" in text  # rows with a heading of their own keep their value
    assert "Menu" not in text and "Imprint" not in text


def test_text_of_the_main_part() -> None:
    text = read(PAGE, "text")["text"]
    assert "Some bold and a link." in text and "one\ntwo" in text.replace("\n\n", "\n") and "http" not in text


def test_a_page_without_a_main_part_loses_only_its_surroundings() -> None:
    text = read("<nav>menu</nav><div>first</div><div>second</div><footer>foot</footer>")["text"]
    assert text.split() == ["first", "second"]


def test_a_small_article_does_not_stand_for_the_page() -> None:
    text = read("<article>teaser</article><div>" + "the real text " * 20 + "</div>")["text"]
    assert "the real text" in text


@pytest.mark.parametrize("mode", ["markdown", "text"])
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_pages(name: str, mode: str) -> None:
    text = read(HOSTILE[name], mode)["text"]
    assert "visible" in text
    assert SECRET not in text.replace("\\", "")
    assert "javascript:" not in text and "data:" not in text


def test_there_are_thirty() -> None:
    assert len(HOSTILE) >= 30


def test_rows_are_picked_by_selectors() -> None:
    html = "<div class='r a'><a href='/1'>One</a><i>x\n y</i></div><div class=r><a href='/2'>Two</a></div>"
    fields = {"title": "a", "url": "a@href", "text": "i", "kind": "@class"}
    assert pick_rows({"rows": "div.r", "fields": fields}, html.encode()) == [
        {"title": "One", "url": "/1", "text": "x y", "kind": "r a"},
        {"title": "Two", "url": "/2", "text": "", "kind": "r"},
    ]
    assert pick_rows({"rows": "div.r", "fields": {}, "limit": 1}, html.encode()) == [{}]
