"""Tokens: ours are read by another library and its are read by us; nothing that is almost right is believed."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import jwt as other
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from hypothesis import given
from hypothesis import strategies as st

from palinurus.core.jwt import find_key_id, read_jwks, read_private_key, sign_token, verify_token
from palinurus.testing.web.keys import read_test_key, show_test_keys, sign_with_test_key, write_test_pem

NOW = 1_800_000_000
CLAIMS: dict[str, Any] = {"iss": "https://i.example", "aud": "me", "exp": NOW + 60, "nbf": NOW - 60}
KEY = read_test_key()


def signed(claims: dict[str, Any]) -> str:
    return _sign(json.dumps(claims))


@cache
def _sign(claims: str) -> str:
    return sign_with_test_key(json.loads(claims))  # 15 ms, and most of them are the same


def believed(token: str, **other: Any) -> Any:
    given = {"issuers": ("https://i.example",), "audience": "me", "now": NOW, **other}
    return verify_token(token, given.pop("key", KEY), **given)


def test_another_library_reads_what_we_sign_and_we_what_it_signs() -> None:
    made = rsa.generate_private_key(65537, 2048)
    for form in (PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL):
        pem = made.private_bytes(Encoding.PEM, form, NoEncryption()).decode()
        token = sign_token(read_private_key(pem), {**CLAIMS, "exp": 9_999_999_999, "nbf": 1}, "k")
        assert other.decode(token, made.public_key(), algorithms=["RS256"], audience="me")["iss"] == CLAIMS["iss"]
    keys = read_jwks({"keys": [{**json.loads(other.algorithms.RSAAlgorithm.to_jwk(made.public_key())), "kid": "k"}]})
    token = other.encode(CLAIMS, pem, algorithm="RS256", headers={"kid": "k"})
    assert find_key_id(token) == "k" and believed(token, key=keys["k"]) == CLAIMS
    assert believed(token) is None  # another key's


@pytest.mark.parametrize(
    "wrong",
    [
        {"iss": "https://evil.example"},
        {"aud": "you"},
        {"aud": ["you", "them"]},
        {"exp": NOW - 301},
        {"exp": None},
        {"exp": "9999999999"},
        {"nbf": NOW + 301},
    ],
)
def test_whom_and_when_it_is_for(wrong: dict[str, Any]) -> None:
    assert believed(signed(CLAIMS)) == CLAIMS and believed(signed({**CLAIMS, "aud": ["me"]}))
    assert believed(signed({**CLAIMS, **wrong})) is None
    assert believed(signed({**CLAIMS, "aud": ""}), audience="") is None


def test_other_ways_to_sign_are_none() -> None:
    head, body, tail = signed(CLAIMS).split(".")
    none = other.encode(CLAIMS, None, algorithm="none", headers={"kid": "test-key"})
    shared = other.encode(CLAIMS, "x" * 32, algorithm="HS256", headers={"kid": "test-key"})
    for token in (
        none,
        shared,
        f"{head}.{body}",
        f"{head}.{body}.",
        f"{head}.{body}.{tail}.x",
        f"{body}.{body}.{tail}",
    ):
        assert believed(token) is None
    assert find_key_id(none) == find_key_id(shared) == find_key_id("x" * 20_000) == ""


@given(st.integers(0, 2), st.integers(0, 400), st.integers(0, 63))
def test_a_changed_token_is_not_believed(part: int, at: int, letter: int) -> None:
    parts = signed(CLAIMS).split(".")
    at %= len(parts[part])
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    changed = parts[part][:at] + letters[letter] + parts[part][at + 1 :]
    same = changed == parts[part] or (part == 2 and at == len(parts[2]) - 1)  # its last letter has bits to spare
    parts[part] = changed
    assert same or believed(".".join(parts)) is None


@given(st.text(max_size=40))
def test_no_text_breaks_the_reader(text: str) -> None:
    assert believed(text) is None and find_key_id(text) == "" and believed(f"{text}.{text}.{text}") is None


def test_which_keys_are_taken() -> None:
    (row,) = (one for one in show_test_keys()["keys"] if one["kty"] == "RSA")
    assert read_jwks({"keys": [row]}) == {"test-key": KEY}
    for wrong in ({"kty": "oct"}, {"use": "enc"}, {"n": "AQAB"}, {"n": "%"}, {"e": "AQ"}):
        assert read_jwks({"keys": [{**row, **wrong}, None]}) == {}
    assert read_jwks({}) == read_jwks({"keys": "x"}) == {}


def test_keys_that_are_none() -> None:
    pem = write_test_pem()
    assert read_private_key(pem).modulus == KEY.modulus and str(read_private_key(pem).secret) not in repr(
        read_private_key(pem)
    )
    for wrong in (
        "",
        "x",
        pem.replace("PRIVATE", "PUBLIC"),
        "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----",
    ):
        with pytest.raises(ValueError, match="key"):
            read_private_key(wrong)
