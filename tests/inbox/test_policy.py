"""Who decides what happens to a message while its session is busy."""

from __future__ import annotations

import json
from typing import Any

import pytest

from palinurus.config.sections.session import QueueSettings
from palinurus.core.types.inbound import Sender, Target, TurnOptions, read_options
from palinurus.inbox.policy import NO_OVERRIDES, QueueOverrides, QueuePolicy, parse_mode, read_overrides, resolve_policy
from support import inbound, read

CONFIGURED = QueueSettings("followup", 1.0, 7, "old", {"telegram": "collect"}, {"telegram": 2.0})


@pytest.mark.seed(380)
def test_the_defaults() -> None:
    assert resolve_policy(inbound(), NO_OVERRIDES, QueueSettings()) == QueuePolicy("steer", 0.5, 20, "summarize")


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("steer", "steer"),
        ("Steering ", "steer"),
        ("queue", "steer"),
        ("follow-ups", "followup"),
        ("steer+backlog", "followup"),
        ("steer-backlog", "followup"),
        ("coalesce", "collect"),
        ("interrupts", "interrupt"),
        ("abort", "interrupt"),
        ("later", None),
        (7, None),
        (None, None),
    ],
)
def test_words_for_the_modes(word: object, meant: str | None) -> None:
    assert parse_mode(word) == meant


def test_the_message_goes_before_the_session_the_channel_and_the_configuration() -> None:
    chat = {"target": Target("telegram", "7"), "sender": Sender("me", owner=True)}
    session = QueueOverrides("interrupt", 3000, 4, "new")
    assert resolve_policy(inbound(), NO_OVERRIDES, CONFIGURED) == QueuePolicy("followup", 1.0, 7, "old")
    assert resolve_policy(inbound(**chat), NO_OVERRIDES, CONFIGURED) == QueuePolicy("collect", 2.0, 7, "old")
    assert resolve_policy(inbound(**chat), session, CONFIGURED) == QueuePolicy("interrupt", 3.0, 4, "new")
    asked = TurnOptions(queue="steer", queue_debounce_ms=0, queue_cap=2, queue_drop="summarize")
    assert resolve_policy(inbound(**chat, options=asked), session, CONFIGURED) == QueuePolicy(
        "steer", 0.0, 2, "summarize"
    )
    directed = read(inbound("do /queue collect this", **chat))
    assert resolve_policy(directed.inbound, session, CONFIGURED, directed.inline.queue).mode == "collect"


def test_a_strangers_directive_is_text() -> None:
    message = read(inbound("do /queue interrupt this"))
    assert resolve_policy(message.inbound, NO_OVERRIDES, QueueSettings(), message.inline.queue).mode == "steer"


@pytest.mark.parametrize(
    "bad", [{"queueMode": "x", "queueCap": 0, "queueDebounceMs": -1, "queueDrop": []}, {"queueCap": True}]
)
def test_values_that_mean_nothing_are_passed_over(bad: dict[str, Any]) -> None:
    session = read_overrides(json.dumps({"sessionId": "s", **bad}).encode())
    assert resolve_policy(inbound(options=read_options(bad)), session, QueueSettings()) == QueuePolicy()
    assert read_overrides(b"[") == NO_OVERRIDES


def test_who_waits_for_the_answer_gets_its_own_turn() -> None:
    ask = inbound(target=Target("http"), options=TurnOptions(queue="steer"))
    assert resolve_policy(ask, QueueOverrides("interrupt"), CONFIGURED) == QueuePolicy("followup", 0.0, 7, "new")
