"""Signatures: what fits, and everything that must not."""

from __future__ import annotations

import hashlib
import hmac

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palinurus.core.webhooks import SIGNATURE_SCHEMES, SIGNED_TIME_WINDOW, verify_signature

NOW = 1_700_000_000_000
STAMP = str(NOW // 1000)
BODY = b'{"a": 1}'


def mac(text: bytes, secret: str = "s3cret") -> str:
    return hmac.new(secret.encode(), text, hashlib.sha256).hexdigest()


def signed(scheme: str, body: bytes = BODY, secret: str = "s3cret", stamp: str = STAMP) -> dict[str, str]:
    """The headers a right sender sends."""
    dotted = mac(f"{stamp}.".encode() + body, secret)
    return {
        "github": {"x-hub-signature-256": f"sha256={mac(body, secret)}"},
        "stripe": {"stripe-signature": f"t={stamp},v1={dotted},v0=old"},
        "slack": {
            "x-slack-signature": f"v0={mac(f'v0:{stamp}:'.encode() + body, secret)}",
            "x-slack-request-timestamp": stamp,
        },
        "generic": {"x-webhook-signature": f"sha256={dotted}", "x-webhook-timestamp": stamp},
    }[scheme]


@pytest.mark.parametrize("scheme", SIGNATURE_SCHEMES)
def test_the_right_signature_fits_and_nothing_else_does(scheme: str) -> None:
    headers = signed(scheme)
    assert verify_signature(scheme, "s3cret", headers, BODY, NOW)
    assert not verify_signature(scheme, "other", headers, BODY, NOW)
    assert not verify_signature(scheme, "s3cret", headers, b'{"a":1}', NOW)  # the same JSON in other bytes
    assert not verify_signature(scheme, "s3cret", {}, BODY, NOW)
    for blank in ("", "  "):
        assert not verify_signature(scheme, blank, signed(scheme, secret=blank), BODY, NOW)
    for other in SIGNATURE_SCHEMES.keys() - {scheme}:
        assert not verify_signature(other, "s3cret", headers, BODY, NOW)
    assert not verify_signature("none", "s3cret", headers, BODY, NOW)


@pytest.mark.parametrize("scheme", [name for name, row in SIGNATURE_SCHEMES.items() if row.timed])
def test_a_signed_time_must_be_near(scheme: str) -> None:
    for off in (-SIGNED_TIME_WINDOW - 1000, SIGNED_TIME_WINDOW + 1000):
        assert not verify_signature(scheme, "s3cret", signed(scheme), BODY, NOW + off)
    assert verify_signature(scheme, "s3cret", signed(scheme), BODY, NOW + SIGNED_TIME_WINDOW)
    for stamp in ("", "x", "-1", "9" * 40, STAMP + " "):
        assert not verify_signature(scheme, "s3cret", signed(scheme, stamp=stamp), BODY, NOW)


def test_stripe_sends_two_while_a_secret_changes_but_only_one_time() -> None:
    right = mac(f"{STAMP}.".encode() + BODY)
    assert verify_signature("stripe", "s3cret", {"stripe-signature": f"t={STAMP},v1={'0' * 64},v1={right}"}, BODY, NOW)
    assert not verify_signature("stripe", "s3cret", {"stripe-signature": f"t=1,t={STAMP},v1={right}"}, BODY, NOW)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(list(SIGNATURE_SCHEMES)), st.text(max_size=120), st.text(max_size=30), st.binary(max_size=50))
def test_no_header_breaks_it(scheme: str, signature: str, stamp: str, body: bytes) -> None:
    names = ("x-hub-signature-256", "stripe-signature", "x-slack-signature", "x-webhook-signature")
    headers = dict.fromkeys(names, signature) | {"x-webhook-timestamp": stamp, "x-slack-request-timestamp": stamp}
    assert verify_signature(scheme, "s3cret", headers, body, NOW) == ""
