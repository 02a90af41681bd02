"""The table of what follows from what."""

from __future__ import annotations

from typing import get_args

import pytest

from palinurus.config.sections.channels import SendRetrySettings
from palinurus.core.types.channel import SendFailure, SendTrouble
from palinurus.core.types.inbound import Target
from palinurus.core.types.outbound import Reply
from palinurus.outbox.send import (
    DAY,
    HOLD,
    LIMITED,
    TABLE,
    WAITS,
    RetryPlan,
    SendShape,
    find_remedy,
    plan_retry,
    shape_reply,
)

REPLY = Reply(Target("fake"), "some text", "id", media=("/home/me/secret/a.png", "https://e.x/b"))


def test_every_trouble_has_a_row() -> None:
    assert set(TABLE) == set(get_args(SendTrouble))


@pytest.mark.parametrize(
    ("trouble", "how"),
    [("markup", SendShape(plain=True)), ("media", SendShape(bare=True)), ("long", SendShape(small=True))],
)
def test_remedies_are_tried_once(trouble: SendTrouble, how: SendShape) -> None:
    assert find_remedy(trouble, SendShape(), REPLY) == how
    assert find_remedy(trouble, how, REPLY) is None
    assert plan_retry(SendFailure("", trouble), 1, 0) == RetryPlan(None)


@pytest.mark.parametrize("trouble", ["blocked", "gone", "refused"])
def test_some_things_never_work(trouble: SendTrouble) -> None:
    assert find_remedy(trouble, SendShape(), REPLY) is None
    assert plan_retry(SendFailure("", trouble), 1, 0) == RetryPlan(None)


def test_names_stand_for_files_that_are_not_taken_and_say_not_where_they_lie() -> None:
    made = shape_reply(REPLY, SendShape(bare=True))
    assert made.media == () and made.text == "some text\n\n📎 a.png\n📎 https://e.x/b"
    assert shape_reply(REPLY, SendShape(plain=True)).plain


def test_waits_grow_and_end() -> None:
    assert [plan_retry(SendFailure("", "down"), n, 0).wait for n in range(1, 8)] == [*WAITS, None]
    assert plan_retry(SendFailure("", "down", 7.0), 1, 0).wait == 7.0
    assert plan_retry(SendFailure("", "down", 7.0), len(WAITS) + 1, 0).wait is None


def test_what_the_platform_limits_waits_as_long_as_it_says_and_is_not_given_up_for_a_day() -> None:
    assert plan_retry(SendFailure("", "limited", 9.0), 50, 0) == RetryPlan(9.0)
    assert plan_retry(SendFailure("", "limited"), 50, 0) == RetryPlan(LIMITED)
    assert plan_retry(SendFailure("", "limited", 9.0, everywhere=True), 1, 0) == RetryPlan(9.0, chat=False)
    assert plan_retry(SendFailure("", "limited", 9.0), 50, DAY) == RetryPlan(None)


def test_a_signed_out_account_waits_as_a_whole() -> None:
    assert plan_retry(SendFailure("", "signed_out"), 99, 0) == RetryPlan(HOLD, chat=False)


def test_an_account_says_how_often_and_when_a_message_is_tried_again() -> None:
    own = SendRetrySettings(attempts=4, least=1.0, most=3.0, jitter=0.0)
    assert [plan_retry(SendFailure("", "down"), n, 0, own).wait for n in range(1, 5)] == [1.0, 2.0, 3.0, None]
    spread = [SendRetrySettings(jitter=0.5).wait(1, chance) for chance in (0.0, 0.5, 0.999)]
    assert spread[0] == 0.25 and spread[1] == 0.5 and spread[2] is not None and 0.74 < spread[2] < 0.75
