"""The fake reads HTML as Telegram does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.core.format.render import render_markdown
from palinurus.testing.telegram.api import TelegramHtmlError, strip_html


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("<b>bold</b> &lt;x&gt; &amp; &quot;q&quot;", 'bold <x> & "q"'),
        ('<a href="https://e.x/?a&amp;b">site</a>', "site"),
        ('<pre><code class="language-py">x = 1</code></pre>', "x = 1"),
        ("<tg-spoiler>s</tg-spoiler> AT&T &nbsp; &#65;", "s AT&T &nbsp; A"),
        ("<blockquote expandable>q</blockquote>", "q"),
    ],
)
def test_what_people_read(source: str, text: str) -> None:
    assert strip_html(source) == text


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("ä<p>x</p>", 'Unsupported start tag "p" at byte offset 2'),
        ("a < b", "Unsupported start tag"),
        ("<b>x</i>", 'Unmatched end tag at byte offset 4, expected "</b>", found "</i>"'),
        ("x</b>", "Unexpected end tag at byte offset 1"),
        ("<b>x", 'Can\'t find end tag corresponding to start tag "b"'),
        ("<span>x</span>", 'Unsupported start tag "span"'),
    ],
)
def test_what_telegram_refuses(source: str, error: str) -> None:
    with pytest.raises(TelegramHtmlError, match=r"^can't parse entities: "):
        strip_html(source)
    with pytest.raises(TelegramHtmlError) as caught:
        strip_html(source)
    assert error in str(caught.value)


@given(st.text(st.sampled_from("ab <>&*_`~[]()#|>-\n\\!\"'1."), max_size=60))
def test_what_we_send_is_always_readable(text: str) -> None:
    strip_html(render_markdown(text, "telegram").text)
