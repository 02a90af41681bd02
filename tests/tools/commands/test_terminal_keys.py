"""Keys by name, as a terminal sends them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.tools.commands.terminal import PASTE_END, PASTE_START, encode_key, encode_keys, encode_paste, from_hex


@pytest.mark.parametrize(
    ("token", "data"),
    [
        ("Enter", b"\r"), ("enter", b"\r"), ("Tab", b"\t"), ("Escape", b"\x1b"), ("Space", b" "), ("BSpace", b"\x7f"),
        ("Up", b"\x1b[A"), ("F5", b"\x1b[15~"), ("PageDown", b"\x1b[6~"), ("C-c", b"\x03"), ("c-C", b"\x03"),
        ("^C", b"\x03"), ("^[", b"\x1b"), ("C-d", b"\x04"), ("C-Space", b"\x00"), ("C-\\", b"\x1c"), ("M-x", b"\x1bx"),
        ("C-M-a", b"\x1b\x01"), ("S-Tab", b"\x1b[Z"), ("S-Up", b"\x1b[1;2A"), ("C-Left", b"\x1b[1;5D"),
        ("C-S-Right", b"\x1b[1;6C"), ("C-Delete", b"\x1b[3;5~"), ("S-a", b"A"), ("a", b"a"), ("é", "é".encode()),
        ("S-F1", b"\x1b[1;2P"), ("hello", None), ("C-1", None), ("X-a", None), ("", None),
    ],
)  # fmt: skip
def test_names(token: str, data: bytes | None) -> None:
    assert encode_key(token) == data


def test_several_and_what_is_no_key() -> None:
    made = encode_keys(["l", "s", "Enter", "Nope", "C-c"])
    assert made.data == b"ls\rNope\x03" and made.unknown == ("Nope",)


def test_hex() -> None:
    assert from_hex(["1b", "0x5B", "\\x41", "0d 0a", "01,02"]) == b"\x1b[A\r\n\x01\x02"
    assert "'1' is no hex byte" in str(from_hex(["1"])) and "xyz" in str(from_hex(["xyz"]))


@given(st.text())
def test_a_paste_has_one_beginning_and_one_end(text: str) -> None:
    hostile = text + "\x1b[201~" + text + "\x1b[20\x1b[201~1~rm"
    data = encode_paste(hostile, bracketed=True)
    assert (
        data.startswith(PASTE_START)
        and data.endswith(PASTE_END)
        and data.count(PASTE_START) == data.count(PASTE_END) == 1
    )
    assert encode_paste(text, bracketed=False) == text.encode("utf-8", "replace")


@given(st.lists(st.text()))
def test_any_tokens_become_bytes(tokens: list[str]) -> None:
    encode_keys(tokens)
    from_hex(tokens)
