"""What Telegram's errors mean, and what stands behind a button. Sending itself: test_conformance and test_flow."""

from __future__ import annotations

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from telegram import error as errors

from palinurus.channels.telegram.outbound import arrange_buttons, encode_button, explain_telegram_error
from palinurus.core.types.channel import SendFailure
from palinurus.core.types.outbound import Button


def network(cause: Exception) -> errors.NetworkError:
    made = errors.NetworkError("httpx")
    made.__cause__ = cause
    return made


@pytest.mark.parametrize(
    ("exc", "trouble"),
    [
        (errors.RetryAfter(7), "limited"),
        (errors.InvalidToken("Unauthorized"), "signed_out"),
        (errors.BadRequest('Can\'t parse entities: unsupported start tag "x"'), "markup"),
        (errors.BadRequest("Message is too long"), "long"),
        (errors.BadRequest("Message caption is too long"), "long"),
        (errors.BadRequest("Chat not found"), "gone"),
        (errors.BadRequest("Message thread not found"), "gone"),
        (errors.BadRequest("TOPIC_CLOSED"), "gone"),
        (errors.BadRequest("PHOTO_INVALID_DIMENSIONS"), "media"),
        (errors.BadRequest("Wrong file identifier/HTTP URL specified"), "media"),
        (errors.BadRequest("VOICE_MESSAGES_FORBIDDEN"), "media"),
        (errors.BadRequest("Not enough rights to send text messages to the chat"), "refused"),
        (errors.Forbidden("Forbidden: bot was blocked by the user"), "blocked"),
        (errors.Forbidden("Forbidden: user is deactivated"), "blocked"),
        (errors.Forbidden("Forbidden: bot can't initiate conversation with a user"), "blocked"),
        (errors.Forbidden("Forbidden: bot was kicked from the supergroup chat"), "gone"),
        (errors.Forbidden("Forbidden: bot is not a member of the channel chat"), "gone"),
        (errors.NetworkError("Bad Gateway"), "down"),
        (errors.NetworkError("Internal Server Error (500)"), "down"),
        (errors.NetworkError("Gateway Timeout (504)"), "cut"),
        (errors.NetworkError("Request Entity Too Large (413)"), "media"),
        (network(httpx.ConnectError("refused")), "down"),
        (network(httpx.ConnectTimeout("slow")), "down"),
        (network(httpx.PoolTimeout("busy")), "down"),
        (network(httpx.ReadError("reset")), "cut"),
        (network(httpx.ReadTimeout("silence")), "cut"),
        (network(httpx.RemoteProtocolError("closed")), "cut"),
        (errors.Conflict("Conflict: terminated by other getUpdates request"), "down"),
    ],
)
def test_every_error_has_its_word(exc: errors.TelegramError, trouble: str) -> None:
    found = explain_telegram_error(exc)
    assert isinstance(found, SendFailure) and found.trouble == trouble and found.reason
    assert found.retry_after == (7.0 if trouble == "limited" else None)


@given(st.text(max_size=100))
def test_what_stands_behind_a_button_fits(text: str) -> None:
    data = encode_button(text)
    assert 1 <= len(data.encode()) <= 64
    assert data == f"t{text}" if len(text.encode()) < 64 else data.startswith("k") and data == encode_button(text)


def test_short_buttons_stand_side_by_side() -> None:
    labels = ["Allow once", "Allow always", "Deny", "a" * 40, "b" * 40, "", "c" * 100]
    shown = [[one.text for one in row] for row in arrange_buttons([Button(label, label) for label in labels])]
    assert shown == [labels[:3], ["a" * 40], ["b" * 40], ["…"], ["c" * 64]]
