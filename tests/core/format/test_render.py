"""What each platform is sent for a model's Markdown, and that it is never broken, whatever the model wrote."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.core.format.render import StyleSpan, measure_markdown, render_markdown
from palinurus.core.types.channel import ChannelAbilities, Markup

ALL: tuple[Markup, ...] = ("plain", "markdown", "telegram", "slack", "discord", "whatsapp", "signal", "matrix", "irc")
BITS = st.sampled_from(
    [
        *(
            "**",
            "*",
            "_",
            "__",
            "~~",
            "||",
            "`",
            "```",
            "```py\n",
            "~~~",
            "\n",
            "\n\n",
            "> ",
            ">> ",
            "- ",
            "  - ",
            "1. ",
        ),
        *("[", "](", ")", "](https://e.x/a_b)", "![x](", "<", ">", "&", "&amp;", "<b>", "</pre>", '"', "\\", "|", "# "),
        *(
            "|a|b|\n|-|-|\n|1|2|\n",
            "https://e.x/a*b*c",
            "word",
            " ",
            "x",
            "é",
            "😀",
            "\x00",
            "\ud800",
            "---",
            "\t",
            "$",
        ),
    ]
)
TEXTS = st.lists(BITS, max_size=30).map("".join) | st.text(max_size=60)


class Balanced(HTMLParser):
    """Fails on a tag that is not allowed, not closed, or closed in the wrong order."""

    def __init__(self, allowed: set[str]) -> None:
        super().__init__(convert_charrefs=True)
        self.allowed, self.open, self.text = allowed, list[str](), list[str]()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in self.allowed, tag
        if tag not in ("br", "hr"):
            self.open.append(tag)
        for name, value in attrs:
            assert (tag, name) in {("a", "href"), ("code", "class"), ("ol", "start"), ("span", "data-mx-spoiler")}
            assert name != "href" or re.match(r"(?:https?://|mailto:|tel:)", value or "", re.IGNORECASE)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


TELEGRAM = {"b", "i", "s", "code", "pre", "a", "blockquote", "tg-spoiler"}
MATRIX = {"strong", "em", "del", "span", "code", "pre", "a", "blockquote", "p", "br", "hr", "ul", "ol", "li"}
MATRIX |= {f"h{n}" for n in range(1, 7)}


@given(TEXTS)
def test_telegram_gets_balanced_html_of_its_own_tags_and_nothing_else(text: str) -> None:
    made = render_markdown(text, "telegram").text
    parser = Balanced(TELEGRAM)
    parser.feed(made)
    parser.close()
    assert parser.open == []
    assert not re.search(r"&(?!(?:amp|lt|gt|quot);)", made)
    assert "".join(parser.text).strip() or not re.sub(r"[\x00-\x1f\x7f]", "", text).strip()


@given(TEXTS)
def test_telegram_never_nests_what_it_does_not_allow(text: str) -> None:
    made = render_markdown(text, "telegram").text
    for inner in re.findall(r"<code[^>]*>(.*?)</code>", made, re.DOTALL):
        assert "<" not in inner
    for inner in re.findall(r"<blockquote>(.*?)</blockquote>", made, re.DOTALL):
        assert not re.search(r"<(?:blockquote|code|pre|a)\b", inner)


@given(TEXTS)
def test_matrix_gets_balanced_html(text: str) -> None:
    parser = Balanced(MATRIX)
    parser.feed(render_markdown(text, "matrix").html)
    parser.close()
    assert parser.open == []


@given(TEXTS)
def test_slack_gets_no_sign_of_its_own_that_it_would_read_as_a_command(text: str) -> None:
    made = render_markdown(text, "slack").text
    rest = re.sub(r"<(?:https?://|mailto:|tel:)[^<>|]+(?:\|[^<>|]*)?>", "", made, flags=re.IGNORECASE)
    rest = re.sub(r"(?m)^(?:> )", "", rest)
    assert "<" not in rest and ">" not in rest
    assert not re.search(r"&(?!(?:amp|lt|gt);)", made)


@given(TEXTS)
def test_signal_spans_lie_within_the_text(text: str) -> None:
    made = render_markdown(text, "signal")
    units = len(made.text.encode("utf-16-le")) // 2
    assert all(s.start >= 0 and s.length > 0 and s.start + s.length <= units for s in made.spans)


@given(TEXTS, st.sampled_from(ALL))
def test_nothing_is_lost_and_nothing_that_cannot_be_encoded_goes_out(text: str, markup: Markup) -> None:
    made = render_markdown(text, markup)
    (made.text + made.html).encode("utf-8")
    assert "\x00" not in made.text
    assert made.text.strip() or not re.sub(r"[\x00-\x1f\x7f]", "", text).strip()


@pytest.mark.parametrize("text", ["**", "```", "> ", "# ", "[](", "-", "***", "||", "~~~\n"])
@pytest.mark.parametrize("markup", ALL)
def test_marks_alone_are_still_something_to_read(text: str, markup: Markup) -> None:
    assert render_markdown(text, markup).text.strip()


@pytest.mark.parametrize(
    "text", ["[" * 5000, "*a " * 2500, "`" * 3 + "a`b``" * 1500, "> " * 2000, "**_" * 2000, "h" * 20000]
)
def test_hostile_texts_take_no_time_worth_speaking_of(text: str) -> None:
    for markup in ALL:
        assert render_markdown(text, markup).text


CASES: dict[Markup, str] = {
    "plain": "Title\nbold both code lab (https://e.x/)\n• one\n  • two\n3. three\n> said\nx < 1",
    "telegram": (
        '<b>Title</b>\n<b>bold </b><i><b>both</b></i> <code>code</code> <a href="https://e.x/">lab</a>\n• one\n'
        '  • two\n3. three\n<blockquote>said</blockquote>\n<pre><code class="language-py">x &lt; 1</code></pre>'
    ),
    "slack": "*Title*\n*bold* *_both_* `code` <https://e.x/|lab>\n• one\n  • two\n3. three\n> said\n```\nx &lt; 1\n```",
    "discord": (
        "# Title\n**bold** ***both*** `code` [lab](https://e.x/)\n- one\n  - two\n3. three\n> said\n```py\nx < 1\n```"
    ),
    "whatsapp": "*Title*\n*bold* *_both_* `code` lab (https://e.x/)\n- one\n  - two\n3. three\n> said\n```\nx < 1\n```",
}


@pytest.mark.parametrize("markup", CASES)
def test_one_text_on_every_platform(markup: Markup) -> None:
    text = "# Title\n**bold *both*** `code` [lab](https://e.x/)\n- one\n  - two\n3) three\n> said\n```py\nx < 1\n```"
    assert render_markdown(text, markup).text == CASES[markup]


def test_matrix_has_a_body_and_a_form() -> None:
    made = render_markdown("**Hi** [site](https://e.x/)\n- a\n  1. b", "matrix")
    assert made.text == "Hi site (https://e.x/)\n• a\n  1. b"
    assert made.html == (
        '<p><strong>Hi</strong> <a href="https://e.x/">site</a></p><ul><li>a</li><ol><li>b</li></ol></ul>'
    )
    assert render_markdown("only words", "matrix").html == ""


def test_signal_marks_positions_in_utf16() -> None:
    made = render_markdown("😀 **bold** and `code`", "signal")
    assert made.text == "😀 bold and code"
    assert made.spans == (StyleSpan(3, 4, "BOLD"), StyleSpan(12, 4, "MONOSPACE"))


def test_a_table_becomes_text_with_its_columns_in_line() -> None:
    made = render_markdown("| name | n |\n|:--|--:|\n| **long one** | 1 |\n| x | 22 |", "telegram").text
    assert made == "<pre>name      n\n--------  --\nlong one  1\nx         22</pre>"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("snake_case_name", "snake_case_name"),
        ("2 * 3 * 4", "2 * 3 * 4"),
        ("**open", "**open"),
        ("a \\*b\\*", "a *b*"),
        ("[x](javascript:alert)", "x (javascript:alert)"),
        ("see https://e.x/a_b_c.", "see https://e.x/a_b_c."),
        ("<b>raw</b>", "&lt;b&gt;raw&lt;/b&gt;"),
        ("***all***", "<i><b>all</b></i>"),
        ("**a _b_ c**", "<b>a </b><i><b>b</b></i><b> c</b>"),
        ("**use `x` now**", "<b>use </b><code>x</code><b> now</b>"),
        ("```\nnever closed", "<pre>never closed</pre>"),
        ("``a ` b``", "<code>a ` b</code>"),
    ],
)
def test_marks_that_are_none_stay_and_those_that_are_do_not(text: str, shown: str) -> None:
    assert render_markdown(text, "telegram").text == shown


def test_length_is_what_the_platform_counts() -> None:
    assert measure_markdown("**ab**", ChannelAbilities("telegram", unit="utf16")) == 2
    assert measure_markdown("**ab**", ChannelAbilities("discord")) == 6
    assert measure_markdown("😀", ChannelAbilities("plain", unit="utf16")) == 2
    assert measure_markdown("😀", ChannelAbilities("plain", unit="bytes")) == 4
    assert measure_markdown("a&b", ChannelAbilities("slack")) == 7


@pytest.mark.parametrize("text", ["`\n`", "`` ``", "` `"])
def test_code_without_anything_to_see_keeps_its_ticks(text: str) -> None:
    assert render_markdown(text, "plain").text.strip() == text.strip()
