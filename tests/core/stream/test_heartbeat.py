"""The heartbeat's acknowledgement."""

from __future__ import annotations

import pytest

from palinurus.core.stream.heartbeat import parse_ack


@pytest.mark.parametrize(
    "text",
    [
        "HEARTBEAT_OK",
        "**HEARTBEAT_OK**",
        "`HEARTBEAT_OK`.",
        "<b>HEARTBEAT_OK</b>!!",
        "HEARTBEAT_OK all quiet",
        "All quiet. HEARTBEAT_OK",
        "",
    ],
)
def test_dropped(text: str) -> None:
    assert parse_ack(text).drop


def test_a_long_rest_is_delivered_without_the_token() -> None:
    told = "x" * 301
    assert parse_ack(f"HEARTBEAT_OK {told}")[:2] == (False, told)
    assert parse_ack(f"{told}\nHEARTBEAT_OK", limit=400).drop


@pytest.mark.parametrize("text", ["say HEARTBEAT_OK to me", "HEARTBEAT_OKAY then", "heartbeat_ok", "fine"])
def test_untouched(text: str) -> None:
    assert parse_ack(text) == (False, text, False)
