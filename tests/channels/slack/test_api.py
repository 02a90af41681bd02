"""What Slack's errors mean, and how a text is written for it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.channels.emoji import find_emoji_name
from palinurus.channels.slack.api import SECTION, build_body, explain_slack_error
from palinurus.core.types.outbound import Button


def answer(status: int, code: str = "", **headers: str) -> Any:
    return SimpleNamespace(status_code=status, data={"ok": False, "error": code} if code else "", headers=headers)


@pytest.mark.parametrize(
    ("given_answer", "trouble"),
    [
        (answer(200, "ratelimited"), "limited"),
        (answer(429), "limited"),
        (answer(200, "msg_too_long"), "long"),
        (answer(200, "invalid_blocks"), "markup"),
        (answer(200, "token_revoked"), "signed_out"),
        (answer(200, "channel_not_found"), "gone"),
        (answer(200, "messages_tab_disabled"), "blocked"),
        (answer(503), "down"),
        (answer(500), "cut"),  # nobody knows: it is looked up
        (answer(200, "fatal_error"), "cut"),
        (answer(200, "no_permission"), "refused"),
        (answer(404), "refused"),
        (None, "cut"),
    ],
)
def test_every_error_has_its_trouble(given_answer: Any, trouble: str) -> None:
    made = explain_slack_error(given_answer)
    assert made.trouble == trouble and made.reason
    assert (made.retry_after is not None) == (trouble == "limited")


def test_how_long_to_wait() -> None:
    assert explain_slack_error(answer(429, **{"Retry-After": "7"})).retry_after == 7
    assert explain_slack_error(answer(429, **{"Retry-After": "soon"})).retry_after == 30
    assert explain_slack_error(answer(429)).retry_after == 30


def test_what_is_needed_is_said() -> None:
    response = SimpleNamespace(status_code=200, data={"error": "missing_scope", "needed": "chat:write"}, headers={})
    assert explain_slack_error(response).reason == "the app lacks a permission (scope): chat:write"


def test_buttons_are_blocks_and_long_texts_several() -> None:
    text = "\n".join(f"line {number}" for number in range(600))
    made = build_body(text, [Button("Yes", "/yes", "good"), Button("No", "/no", "bad")], ["/yes", "/no"], plain=False)
    *sections, actions = made["blocks"]
    assert len(sections) == 2 and "".join(one["text"]["text"] for one in sections) == text
    assert [(one["text"]["text"], one["value"], one["style"]) for one in actions["elements"]] == [
        ("Yes", "/yes", "primary"),
        ("No", "/no", "danger"),
    ]


@given(st.text(max_size=9000), st.booleans())
def test_nobody_is_called_by_a_text_and_no_block_is_too_long(text: str, plain: bool) -> None:
    made = build_body(text, [Button("A", "a")], ["a"], plain=plain)
    assert "<!" not in made["text"] and "<@" not in made["text"]
    assert all(len(block["text"]["text"]) <= SECTION for block in made["blocks"][:-1])


def test_names_of_emoji() -> None:
    assert (
        find_emoji_name("👀") == "eyes"
        and find_emoji_name("❤️") == "heart"
        and find_emoji_name(":party-parrot:") == "party-parrot"
    )
    assert find_emoji_name("🫥") == "" and find_emoji_name("") == "" and find_emoji_name("a b") == ""
