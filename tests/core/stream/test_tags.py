"""The tag splitter: what is shown, and that it does not matter how the text came."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.core.stream.tags import ReasoningSplit, TagPiece, TagReader, fold_pieces, split_reasoning

CASES = {
    "plain text": ("plain text", ""),
    "<think>why</think>answer": ("answer", "why"),
    "<think>\nwhy\n</think>\n\nanswer": ("answer", "why"),
    "before <think>why</think> after": ("before after", "why"),
    "<thinking>a</thinking>b": ("b", "a"),
    "<thought>a</thought>b": ("b", "a"),
    "<antthinking>a</antthinking>b": ("b", "a"),
    "<{0}thinking>a</{0}thinking>b".format("antml:"): ("b", "a"),
    "< THINK mode='x' >a< / Think >b": ("b", "a"),
    "<think>a</think>b<think>c</think>d": ("bd", "ac"),
    "<think>a<think>b</think>c</think>d": ("d", "abc"),  # nested: ends at the last end
    "<thinker>a</thinker>": ("<thinker>a</thinker>", ""),
    "<think-tank>a": ("<think-tank>a", ""),
    "a < b and <b>bold</b>": ("a < b and <b>bold</b>", ""),
    "a <th": ("a <th", ""),
    "<final>a</final>": ("a", ""),
    "x <final>a</final> y": ("a", "x  y"),  # used once, it is the whole answer
    "<think>t</think>x<final>a": ("a", "tx"),
    "x</think>y<final>a</final>": ("a", "xy"),
    "a</final> b": ("a b", ""),  # never opened
    "x<final> </final>y": ("x", "y"),  # nothing stood in it
    "<final></final>y": ("y", ""),
    "`<final>`a": ("`<final>`a", ""),
    # never opened
    "x</think>b": ("b", "x"),
    "a</think>": ("a", ""),
    "a</think>  \n ": ("a", ""),
    "</think>b": ("b", ""),
    "x</think>y</think>b": ("b", "xy"),
    # never closed
    "shown <think>hidden": ("shown", "hidden"),
    "<think>all of it": ("all of it", ""),
    "  <think>all of it": ("all of it", ""),
    "<think/>all of it": ("all of it", ""),
    "<think>a</think><think>b": ("b", "a"),
    "<think>a</think>": ("", "a"),
    # code is text
    "`<think>` is a tag": ("`<think>` is a tag", ""),
    "``a ` <think>`` b": ("``a ` <think>`` b", ""),
    "```\n<think>x</think>\n```\nb": ("```\n<think>x</think>\n```\nb", ""),
    "~~~xml\n<think>x\n~~~\nb": ("~~~xml\n<think>x\n~~~\nb", ""),
    "1. a\n   ```\n   <think>\n   ```\nb": ("1. a\n   ```\n   <think>\n   ```\nb", ""),
    "```\n<think>never closed": ("```\n<think>never closed", ""),
    "```a``` <think>x</think>b": ("```a``` b", "x"),  # three backticks on one line are inline code
    "it`s <think>x</think>b": ("it`s b", "x"),  # a backtick alone is a backtick
    "a `b\n\n<think>x</think>c` d": ("a `b\n\nc` d", "x"),  # inline code ends with the paragraph
    "<think>a ``` b</think>c": ("c", "a ``` b"),  # code in reasoning does not hide its end
}
ENFORCED = {
    "<final>a</final>": "a",
    "plan <final>a</final> rest": "a",
    "<think>x</think>mumble<final>a<think>y</think>b</final>": "ab",
    "<final>cut off": "cut off",
    "<final>a</final>x<final>b</final>": "ab",
    "no tag at all": "no tag at all",
    "<think>x</think>no tag": "no tag",
    "<think>never closed": "never closed",
    "pre <final> </final>": "pre",
}
TOKENS = ["<think>", "</think>", "<final>", "</final>", "< Thought a=1>", "<", "</", "`", "```\n", "\n~~~\n", "\n\n"]


def heard(deltas: Iterable[str], *, enforce: bool = False) -> list[TagPiece]:
    """The pieces, neighbours of one kind joined."""
    tags = TagReader(enforce=enforce)
    made: list[TagPiece] = []
    for piece in [p for d in deltas for p in tags.feed(d)] + tags.close():
        if made and made[-1].kind == piece.kind != "retract":
            made[-1] = TagPiece(piece.kind, made[-1].text + piece.text)
        else:
            made.append(piece)
    return made


@pytest.mark.seed(119, 120, 121, 309)
@pytest.mark.parametrize(("text", "expected"), CASES.items())
def test_what_is_shown(text: str, expected: tuple[str, str]) -> None:
    assert split_reasoning(text) == ReasoningSplit(*expected)


@pytest.mark.seed(310)
@pytest.mark.parametrize(("text", "expected"), ENFORCED.items())
def test_only_final_counts_once_it_is_used(text: str, expected: str) -> None:
    assert split_reasoning(text).visible == expected
    assert fold_pieces(heard([text], enforce=True)).visible == expected


def test_where_it_was_asked_for_nothing_is_given_out_before_it() -> None:
    tags = TagReader(enforce=True)
    assert tags.feed("mumble") == [] and tags.feed("<final>a") == [TagPiece("text", "a")]


@pytest.mark.seed(314)
@pytest.mark.parametrize("enforce", [False, True])
@pytest.mark.parametrize("text", [*CASES, *ENFORCED])
def test_every_cut_gives_the_same(text: str, enforce: bool) -> None:
    whole = heard([text], enforce=enforce)
    assert heard(text, enforce=enforce) == whole  # letter by letter
    for at in range(len(text)):
        assert heard([text[:at], text[at:]], enforce=enforce) == whole
        assert heard([text[:at], text[at : at + 2], text[at + 2 :]], enforce=enforce) == whole


@given(st.lists(st.sampled_from(TOKENS) | st.text("ab <`\n", max_size=4), max_size=12), st.data())
def test_generated_cuts(parts: list[str], data: st.DataObject) -> None:
    text = "".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    deltas = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert heard(deltas) == heard([text]) == heard(text)


def test_text_is_not_kept_longer_than_needed() -> None:
    tags = TagReader()
    assert tags.feed("see <th") == [TagPiece("text", "see ")]
    assert tags.feed("e rest") == [TagPiece("text", "<the rest")]
    assert tags.feed(" a < b") == [TagPiece("text", " a < b")]
    assert tags.feed("<think>wh") == [TagPiece("thinking", "wh")]
    assert tags.feed("y</thi") == [TagPiece("thinking", "y")]
    assert tags.feed("nk>so") == [TagPiece("text", "so")]
    assert tags.close() == []


def test_no_tag_waits_for_ever() -> None:
    tags = TagReader()
    got = "".join(p.text for n in range(300) for p in tags.feed("<think " if n == 0 else "words "))
    assert len(got) > 1500
