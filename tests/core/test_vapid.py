"""The signature that browsers' vendors ask for, judged by another implementation where there is one."""

from __future__ import annotations

import base64
import json

import pytest

from palinurus.core.vapid import LIFE, make_signing_key, show_public_key, sign_es256, sign_vapid_token

KEY = 0xC9AFA9D845BA75166B5C215767B1D6934E50C3DB36E89B127B8A622B120F6721  # of RFC 6979, A.2.5


def test_the_example_of_the_standard() -> None:
    r = "EFD48B2AACB6A8FD1140DD9CD45E81D69D2C877B56AAF991C34D0EA84EAF3716"
    s = "F7CB1C942D657C41D436C7A1B6E29F65F3E900DBB9AFF4064DC4AB2F843ACDA8"
    assert sign_es256(KEY, b"sample").hex().upper() == r + s
    point = base64.urlsafe_b64decode(show_public_key(KEY) + "=")
    assert point.hex().upper().startswith("0460FED4BA255A9D31C961EB74C6356D68C049B8923B61FA6CE669622E60F29FB6")


def test_a_token_names_the_vendor_and_ends() -> None:
    head, body, signature = sign_vapid_token(KEY, "https://push.example", "mailto:a@b", 1000).split(".")
    said = json.loads(base64.urlsafe_b64decode(body + "=="))
    assert said == {"aud": "https://push.example", "exp": 1000 + LIFE, "sub": "mailto:a@b"}
    ec = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ec", reason="cryptography is not installed")
    hashes = pytest.importorskip("cryptography.hazmat.primitives.hashes")
    utils = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.utils")
    public = ec.EllipticCurvePublicKey.from_encoded_point(
        ec.SECP256R1(), base64.urlsafe_b64decode(show_public_key(KEY) + "=")
    )
    raw = base64.urlsafe_b64decode(signature + "==")
    both = utils.encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
    public.verify(both, f"{head}.{body}".encode(), ec.ECDSA(hashes.SHA256()))  # raises when it is wrong


def test_a_key_is_never_nothing() -> None:
    assert make_signing_key(bytes(40)) == 1
