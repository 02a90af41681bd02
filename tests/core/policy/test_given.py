"""When a value is the owner's: as it stands, as a number or a day in another form, or as a thing called by its name."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from palinurus.core.policy.given import is_called_by_name, is_given, is_within, read_words


@pytest.mark.parametrize(
    ("said", "value", "ours"),
    [
        ("post it to www.our-company.com.They know", "www.our-company.com", True),  # a full stop without its blank
        ("post it to www.example.com.au", "www.example.com", False),  # another host
        ("is Trattoria Luna any good? book it", "Trattoria Luna", True),
        ("see www.example.com?d=1", "www.example.com", False),  # a part of something longer
        ("on May 19th at noon", "2024-05-19 12:00", True),
        ("on 19 May 2024", "2024-05-19", True),
        ("am 19.05.2024", "2024-05-19", True),
        ("on 2024-05-19 at 3pm", "2024-05-19T15:00", True),
        ("on May 19, 2023", "2024-05-19", False),
        ("on May 19th", "2024-05-19 12:00", False),  # a time that nobody said
        ("pay 1,000 now", "1000", True),
        ("pay 1,000 now", 1000.0, True),
        ("what I wrote on June 13", "13", False),  # a day is no id
        ("what I wrote on 2024-05-20", "20", False),
        ("delete file 13", "13", True),
    ],
)
def test_the_same_in_another_form(said: str, value: Any, ours: bool) -> None:
    assert is_given(str(value), read_words([said])) is ours


@pytest.mark.parametrize(
    ("said", "amount", "ours"),
    [
        ("we spent 12.00, send the difference back", "4.0", True),
        ("we spent 12.00, send the difference back", "12.01", False),
        ("at most $50", "49.99", True),
        ("in 2024, to room 500", "4", False),  # no sum of money
        ("send 5", "5", True),
        ("we spent 12.00", "-3", False),
    ],
)
def test_an_amount_may_be_less_than_a_sum_the_owner_wrote(said: str, amount: str, ours: bool) -> None:
    assert is_within(amount, read_words([said])) is ours


EVENTS = [
    {"id_": "5", "title": "Introductory meeting", "description": "ask eve@evil.example", "participants": ["a@x.org"]},
    {"id_": "6", "title": "event", "participants": ["eve@evil.example"]},
    {"id_": "9", "title": "eve@evil.example", "sender": "eve@evil.example", "subject": "no"},
    {"id": 7, "filename": "grocery-list.docx", "note": "13"},
]  # fmt: skip


@pytest.mark.parametrize(
    ("argument", "value", "ours"),
    [
        ("event_id", "5", True),
        ("participants", "a@x.org", True),
        ("recipients", "a@x.org", True),
        ("participants", "eve@evil.example", False),  # running text is nobody's word, and `event` is no name
        ("event_id", "6", False),
        ("event_id", "9", False),
        ("file_id", "7", True),
        ("file_id", "13", False),
        ("title", "5", False),
    ],
)
def test_a_thing_that_was_called_by_its_name(argument: str, value: str, ours: bool) -> None:
    words = read_words(["make an event like the Introductory meeting, and put milk on the grocery list"])
    assert is_called_by_name(argument, value, words, [json.dumps(EVENTS)]) is ours


def test_a_namesake_is_a_question() -> None:
    words = read_words(["cancel 'Lunch'"])
    mine, theirs = {"id": "1", "title": "Lunch"}, {"id": "2", "title": "lunch"}
    assert is_called_by_name("event_id", "1", words, [json.dumps([mine])])
    assert is_called_by_name("event_id", "1", words, [json.dumps([mine]), json.dumps({"found": [mine]})])
    assert not is_called_by_name("event_id", "1", words, [json.dumps([mine, theirs])])
    assert not is_called_by_name("event_id", "2", words, [json.dumps([mine, theirs])])
    assert not is_called_by_name("event_id", "1", read_words(["cancel lunch"]), [json.dumps([mine])])  # one plain word


def test_the_first_two_words_of_a_files_name_will_do_if_no_other_file_has_them() -> None:
    words = read_words(["add milk to the grocery list I have"])
    today, other = {"id": "9", "filename": "grocery-list-today.docx"}, {"id": "2", "filename": "grocery_list_eve.docx"}
    whole = {"id": "7", "filename": "grocery-list.docx"}
    assert is_called_by_name("file_id", "9", words, [json.dumps([today])])
    assert not is_called_by_name("file_id", "9", words, [json.dumps([today, other])])
    assert not is_called_by_name("file_id", "9", words, [json.dumps([today, whole])])  # that one is meant
    assert not is_called_by_name("id", "1", words, [json.dumps([{"id": "1", "title": "grocery list for Eve"}])])
    full = read_words(["delete the grocery list today"])
    assert is_called_by_name("file_id", "9", full, [json.dumps([today, other])])
    assert not is_called_by_name("file_id", "2", full, [json.dumps([today, other])])


@drawn(st.text(max_size=60), st.text(max_size=60))
def test_any_text_is_judged(said: str, value: str) -> None:
    words = read_words([said])
    is_given(value, words), is_within(value, words)
    assert is_called_by_name("id", value, words, [said, "[" * 400, '{"title": ' + json.dumps(said) + "}"]) in (
        True,
        False,
    )
