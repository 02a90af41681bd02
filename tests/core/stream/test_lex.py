"""The lexer under `tags` and `marks`, with a rule of its own."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from palinurus.core.stream.lex import SPAN, Lexer, LexRule, LexToken

RULE = LexRule("at", "@", re.compile(r"@\w+;"), lambda tail: re.fullmatch(r"@\w*", tail) is not None)
START = LexRule("go", "G", re.compile(r"GO\n"), lambda tail: "GO\n".startswith(tail), re.compile(r"GO\Z"), line=True)


def lexed(*deltas: str) -> list[tuple[str, str]]:
    lexer = Lexer(RULE, START)
    tokens = [t for d in deltas for t in lexer.feed(d)] + list(lexer.feed("", closing=True))
    return [(t.rule, t.text) for t in tokens]


def test_constructs_and_text() -> None:
    assert lexed("a @b; c") == [("", "a "), ("at", "@b;"), ("", " c")]
    assert lexed("a @", "b", "; c @d") == [("", "a "), ("at", "@b;"), ("", " c "), ("", "@d")]


def test_a_rule_for_lines_acts_at_their_start_only() -> None:
    assert lexed("GO\n") == lexed("G", "O", "\n") == [("go", "GO\n")]
    assert [rule for rule, _ in lexed("x GO\n  GO\nGO")] == ["", "go", "go"]


def test_a_long_code_span_is_none() -> None:
    """A backtick cannot hold text back for ever."""
    lexer = Lexer(RULE)
    assert list(lexer.feed("`" + "x" * 100)) == []
    assert list(lexer.feed("y" * SPAN + "@a;"))[-1].rule == "at"


def test_idle() -> None:
    lexer = Lexer(RULE)
    assert lexer.idle
    assert list(lexer.feed("a @b")) == [LexToken("a ")]
    assert not lexer.idle
    assert [t.text for t in lexer.feed("; ")] == ["@b;", " "]
    assert lexer.idle
    list(lexer.feed("\n```\n"))
    assert not lexer.idle
    list(lexer.feed("```\n"))
    assert lexer.idle


def test_what_passed_by_counts_for_the_start_of_lines() -> None:
    lexer = Lexer(START)
    lexer.pass_over("words")
    assert [t.rule for t in lexer.feed("GO\n")] == [""]
    lexer.pass_over("words\n ")
    assert [t.rule for t in lexer.feed("GO\n")] == ["go"]


TOKENS = ("@a;", "@", "ab", ";", "GO", "\n", "`", "``", "```\n", "~~~\n", " ", "\n\n")


@given(st.lists(st.sampled_from(TOKENS), max_size=14), st.data())
def test_generated_cuts(parts: list[str], data: st.DataObject) -> None:
    """The same constructs at the same places however the text came."""
    text = "".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
    deltas = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert joined(lexed(*deltas)) == joined(lexed(text)) == joined(lexed(*text))


def joined(tokens: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Neighbouring texts as one."""
    made: list[tuple[str, str]] = []
    for rule, text in tokens:
        if made and not rule and not made[-1][0]:
            made[-1] = ("", made[-1][1] + text)
        else:
            made.append((rule, text))
    return made
