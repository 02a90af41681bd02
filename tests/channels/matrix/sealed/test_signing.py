"""The account's own keys."""

import base64
import hmac
from hashlib import sha256

import pytest

from palinurus.channels.matrix.sealed.files import apply_aes
from palinurus.channels.matrix.sealed.keyring import is_signed_by
from palinurus.channels.matrix.sealed.signing import SigningKey, decode_recovery_key, open_stored_secret


def encode(data: bytes) -> str:
    number, digits = int.from_bytes(data, "big"), "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
    text = ""
    while number:
        number, rest = divmod(number, 58)
        text = digits[rest] + text
    return text


def test_a_recovery_key_as_people_write_it() -> None:
    whole = b"\x8b\x01" + bytes(range(32))
    parity = 0
    for byte in whole:
        parity ^= byte
    written = encode(whole + bytes([parity]))
    spaced = " ".join(written[n : n + 4] for n in range(0, len(written), 4))
    assert decode_recovery_key(spaced) == bytes(range(32)) and written.startswith("Es")
    for wrong in (spaced[:-1] + ("a" if spaced[-1] != "a" else "b"), "", "0OIl"):
        with pytest.raises(ValueError):
            decode_recovery_key(wrong)


def test_what_the_server_stores_opens_with_its_key_alone() -> None:
    key, name = bytes(range(32)), "m.cross_signing.self_signing"
    start = hmac.digest(bytes(32), key, sha256)
    first = hmac.digest(start, name.encode() + b"\x01", sha256)
    second = hmac.digest(start, first + name.encode() + b"\x02", sha256)
    text = apply_aes(first, bytes(16), b"the seed")
    sealed = {"iv": base64.b64encode(bytes(16)).decode(), "ciphertext": base64.b64encode(text).decode()}
    sealed["mac"] = base64.b64encode(hmac.digest(second, text, sha256)).decode()
    assert open_stored_secret(key, name, sealed) == "the seed"
    with pytest.raises(ValueError):
        open_stored_secret(bytes(32), name, sealed)


def test_a_signature_stands_beside_the_others() -> None:
    key = SigningKey(bytes(32))
    made = key.sign({"a": 1, "signatures": {"@pal:fake": {"ed25519:P": "x"}}}, "@pal:fake")
    assert is_signed_by(made, "@pal:fake", key.name, key.name) and "ed25519:P" in made["signatures"]["@pal:fake"]
