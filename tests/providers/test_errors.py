"""What refusals mean: statuses, codes, phrases, pages. Messages are short and hold no credentials."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.providers.errors import LONGEST, classify_refusal, classify_stream_error, clip_message, parse_retry_after


def error(message: str = "", **fields: Any) -> bytes:
    return json.dumps({"error": {"message": message, **fields}}).encode()


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, error("bad", type="invalid_request_error"), "format"),
        (400, error("x", code="context_length_exceeded"), "overflow"),
        (400, error("prompt is too long: 210000 tokens > 200000 maximum", type="invalid_request_error"), "overflow"),
        (400, error("This model's maximum context length is 8192 tokens. Please reduce the length"), "overflow"),
        (400, error("Input is too long for requested model."), "overflow"),
        (400, error("the request exceeds the available context size", type="exceed_context_size_error"), "overflow"),
        (400, error("Your credit balance is too low to access the API"), "billing"),
        (400, error("The model `x` does not exist", code="model_not_found"), "not_found"),
        (400, error("rejected by our content policy"), "refused"),
        (401, error("invalid x-api-key", type="authentication_error"), "auth"),
        (401, error("unknown model, and no key"), "auth"),
        (402, b"", "billing"),
        (403, error("not allowed", type="permission_error"), "auth"),
        (404, error("no", type="not_found_error"), "not_found"),
        (413, error("too large", type="request_too_large"), "overflow"),
        (418, b"teapot", "format"),
        (422, b'{"detail": "wrong"}', "format"),
        (429, error("slow down", type="rate_limit_error"), "rate_limit"),
        (429, error("You exceeded your current quota", type="insufficient_quota"), "billing"),
        (500, error("oops", type="api_error"), "server"),
        (500, error("The engine is currently overloaded"), "overloaded"),
        (503, b"", "overloaded"),
        (529, error("Overloaded", type="overloaded_error"), "overloaded"),
        (599, b"", "server"),
        (400, b'[{"error": {"code": 400, "message": "API key not valid", "status": "INVALID_ARGUMENT"}}]', "format"),
    ],
)
def test_kinds(status: int, body: bytes, kind: str) -> None:
    failure = classify_refusal(status, body)
    assert failure.kind == kind and failure.status == status and failure.message


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"<html><head><title>502 Bad Gateway</title></head><body><h1>x</h1></body></html>", "502 Bad Gateway"),
        (b"<!doctype html><style>p{}</style><script>evil()</script><p>Try  \n later</p>", "Try later"),
        (b'{"detail": "nope"}', "nope"),
        (b'{"message": "plain"}', "plain"),
        (b'{"error": "just text"}', "just text"),
        (b'{"error": {"message": "up", "metadata": {"raw": "why"}}}', "up: why"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"", "HTTP 500"),
        (b"{}", "HTTP 500"),
        (b'{"error": {"message": ["x"]}}', "HTTP 500"),
    ],
)
def test_messages(body: bytes, words: str) -> None:
    assert classify_refusal(500, body).message == words


@given(st.integers(100, 700), st.binary(max_size=200))
def test_any_body_is_answered(status: int, body: bytes) -> None:
    assert 0 < len(classify_refusal(status, body).message) <= LONGEST


@given(
    st.recursive(
        st.none() | st.text(max_size=5) | st.integers(),
        lambda v: (
            st.lists(v)
            | st.dictionaries(
                st.sampled_from(["error", "message", "code", "type", "status", "metadata", "raw", "errors"]), v
            )
        ),
        max_leaves=8,
    )
)
def test_any_json_is_answered(value: Any) -> None:
    assert classify_refusal(400, json.dumps(value).encode()).message
    assert classify_stream_error(value).message


def test_deep_json_is_answered() -> None:
    assert classify_refusal(400, b'{"error":' * 100_000).kind == "format"


def test_long_messages_are_cut_and_secrets_blanked() -> None:
    text = clip_message(
        "key sk-abcdefghijklmnop and Bearer abcdef123456 and hunter2secret " + "x" * 9999, ["hunter2secret"]
    )
    assert len(text) == LONGEST
    assert "abcdefgh" not in text and "abcdef123456" not in text and "hunter2" not in text


@pytest.mark.parametrize(
    ("values", "seconds"),
    [
        ((None, "5"), 5.0),
        ((None, " 5 "), 5.0),
        (("250", None), 0.25),
        ((None, "Thu, 01 Jan 1970 00:01:40 GMT"), 90.0),
        ((None, "Thu, 01 Jan 1970 00:00:00 GMT"), 0.0),
        ((None, "Thu, 01 Jan 1970 00:01:40 -0000"), 90.0),
        ((None, "later"), None),
        ((None, "nan"), None),
        ((None, "1e400"), None),
        ((None, ""), None),
        (("x", "3"), 3.0),
        ((None, "Thu, 99 Foo 1970"), None),
    ],
)
def test_retry_after(values: tuple[str | None, str | None], seconds: float | None, nepal: None) -> None:
    assert parse_retry_after(values, now=10.0) == seconds


@given(st.text(max_size=40))
def test_any_retry_after_is_answered(text: str) -> None:
    found = parse_retry_after((text, text), now=0.0)
    assert found is None or found >= 0
