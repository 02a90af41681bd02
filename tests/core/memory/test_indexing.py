"""Questions as the index takes them: no text is syntax."""

from __future__ import annotations

import sqlite3

from hypothesis import given
from hypothesis import strategies as st

from palinurus.core.memory.indexing import MAX_TERMS, parse_query, space_characters


def test_words_become_quoted_terms_and_common_ones_go() -> None:
    asked = parse_query("What did Anna decide about the Deployment?")
    assert asked.words == ("Anna", "decide", "Deployment")
    assert asked.every() == '"anna"* AND "decide"* AND "deployment"*'


def test_common_words_alone_are_asked_for() -> None:
    assert parse_query("to be or").words == ("to", "be", "or")


def test_quoted_words_stay_together() -> None:
    assert parse_query('say "red tea pot" NEAR').terms == ('"say"', '"red tea pot"', '"near"*')


def test_scripts_without_spaces_are_asked_in_pairs() -> None:
    assert parse_query("東京都x").terms == ('"東 京"', '"京 都"', '"x"')
    assert space_characters("a東京") == "a 東  京 "


def test_there_are_never_too_many() -> None:
    assert len(parse_query(" ".join(f"word{n}" for n in range(100))).terms) == MAX_TERMS


@given(st.text(max_size=80) | st.text(alphabet="\"*()^-+:{}ANDORNEAR \0'", max_size=60))
def test_no_text_breaks_the_index(text: str) -> None:
    asked = parse_query(text)
    conn = sqlite3.connect(":memory:")
    conn.execute("CREATE VIRTUAL TABLE words USING fts5 (title, text, tokenize='porter unicode61')")
    if asked.terms and not any(0xD800 <= ord(c) < 0xE000 for c in text):
        conn.execute("SELECT rowid FROM words WHERE words MATCH ?", (asked.every(),)).fetchall()
    conn.close()
