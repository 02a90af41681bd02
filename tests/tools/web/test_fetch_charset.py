"""Bytes to text: what browsers would read, and no codec that does more than writing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.tools.web.fetch import decode_page


@pytest.mark.parametrize(
    ("data", "told", "text"),
    [
        ("é".encode(), "", "é"),
        (b"\xe9", "", "é"),
        (b"\xe9", "utf-8", "�"),
        (b"\x93x\x94", "iso-8859-1", "“x”"),
        ("日本".encode("euc-jp"), "EUC-JP", "日本"),
        ("\ufeffé".encode(), "latin-1", "é"),
        ("hé".encode("utf-16"), "", "hé"),
        (b"<meta charset='windows-1251'>\xcf", "", "<meta charset='windows-1251'>П"),
        (b"<?xml version='1.0' encoding='iso-8859-2'?>\xb1", "", "<?xml version='1.0' encoding='iso-8859-2'?>ą"),
        ("ééé".encode()[:-1], "", "éé�"),
        (b"+ADw-script+AD4-", "utf-7", "+ADw-script+AD4-"),
        (b"hello", "rot13", "hello"),
        (b"x\x9c", "zip", "xœ"),
        (b"hi", "unicode_escape", "hi"),
        (b"hi", "../../etc/passwd", "hi"),
        (b"", "utf-8", ""),
    ],
)
def test_decode(data: bytes, told: str, text: str) -> None:
    assert decode_page(data, told) == text


@given(st.binary(max_size=200), st.text(max_size=20))
def test_any_bytes_and_any_name_give_text(data: bytes, told: str) -> None:
    assert isinstance(decode_page(data, told), str)
