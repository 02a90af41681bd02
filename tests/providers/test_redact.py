"""Credentials are blanked by value and by shape; ordinary text stays."""

from __future__ import annotations

import pytest

from palinurus.providers.redact import blank_secrets, redact_strings


@pytest.mark.parametrize(
    "secret",
    [
        "sk-ant-api03-abcdefghijklmnop",
        "sk-proj-0123456789abcdef",
        "xai-0123456789abcdef",
        "gsk_0123456789abcdef",
        "ghp_0123456789abcdef0123",
        "AIzaSyA0123456789abcdefghijklmnop",
        "AKIAIOSFODNN7EXAMPLE",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdefghij",
    ],
)
def test_shapes(secret: str) -> None:
    assert (
        secret not in blank_secrets(f"the key {secret} is wrong")
        and blank_secrets(f"the key {secret} is wrong") == "the key *** is wrong"
    )


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("Authorization: Bearer abcdef.ghijkl", "Authorization: Bearer ***"),
        ('{"api_key": "abcdefgh"}', '{"api_key": "***"}'),
        ("?api-key=abcdefgh&x=1", "?api-key=***&x=1"),
        ("PASSWORD=hunter22", "PASSWORD=***"),
        (
            "the task-list is risk-free and the key is under the mat",
            "the task-list is risk-free and the key is under the mat",
        ),
    ],
)
def test_names(text: str, clean: str) -> None:
    assert blank_secrets(text) == clean


def test_values_everywhere() -> None:
    value = {"a": ["x topsecret y", ("topsecret",)], "n": 1}
    assert redact_strings(value, ("topsecret",)) == {"a": ["x *** y", ["***"]], "n": 1}
