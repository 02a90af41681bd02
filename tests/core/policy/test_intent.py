"""Whether the owner's words ask for what a tool does; beside each that do, what they must not be taken for."""

from __future__ import annotations

from typing import Any

import pytest

from palinurus.core.policy.intent import asks_for
from palinurus.core.types.tool import Tool


async def _run(ctx: Any) -> Any: ...


@pytest.mark.parametrize(
    ("said", "tool", "asked"),
    [
        ("Send Bob a mail", "send_mail", True),
        ("Reply to the mail with id 5", "reply_to_mail", True),
        ("Reply to the mail with id 5", "delete_mail", False),  # what is done, not what it is done with
        ("Read the page www.a.example", "post_webpage", False),
        ("Read the page www.a.example", "webpage", True),  # its name says no more
        ("close issue 5", "close_issue", True),
        ("close issue 5", "github_close_issue", True),
        ("look at my github issue 5", "github_close_issue", False),  # a name that is no verb asks for nothing
        ("review pull request 7 and approve it", "approve_pull_request", True),
        ("review pull request 7 and approve it", "merge_pull_request", False),
        ("turn off the lights", "switch_light", True),
        ("are the lights on?", "switch_light", False),
        ("lock the front door", "lock_door", True),
        ("is the front door red?", "unlock_door", False),
        ("lock the front door", "unlock_door", False),  # the opposite
        ("archive all newsletters", "archive_mail", True),
        ("reply to that mail", "archive_mail", False),
        ("order milk", "order_groceries", True),
        ("where is my order 5?", "order_refund", False),  # a thing, not what is done
        ("where is my order 5?", "order_cancel", False),
        ("comment on issue 5", "comment_on_issue", True),
        ("what does the comment say?", "comment_purge", False),
        ("what does the comment say?", "delete_comment", False),
        ("frobnicate the gate", "frobnicate_gate", False),  # unknown words are a question
    ],
)
def test_the_words_ask_for_it(said: str, tool: str, asked: bool) -> None:
    assert asks_for(Tool(tool, tool, {}, _run), said) is asked


def test_a_thing_called_by_its_name_needs_no_word_for_its_kind() -> None:
    cancel = Tool("cancel_event", "", {}, _run)
    assert not asks_for(cancel, 'cancel "Yoga class"')
    assert asks_for(cancel, 'cancel "Yoga class"', named=True)
    assert not asks_for(cancel, 'when is "Yoga class"?', named=True)
