"""The silence token: whole, at the edges, and in pieces."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.core.stream.silent import SilenceFilter, is_silent, strip_silence


@pytest.mark.parametrize(
    "text",
    [
        "NO_REPLY",
        " no_reply\n",
        "NO_REPLY\nNO_REPLY",
        '{"action":"NO_REPLY"}',
        '{ "action" : "NO_REPLY" }\n',
        "NO_REPLY.",
        "no_reply.",
        "**NO_REPLY**",
        "`NO_REPLY`.",
        "**NO_REPLY.**",
        "<b>HEARTBEAT_OK</b>",
        "`HEARTBEAT_OK`",
        "**HEARTBEAT_OK**",
        "_HEARTBEAT_OK_!\n\n**NO_REPLY**",
    ],
)
def test_silent(text: str) -> None:
    assert is_silent(text) and strip_silence(text) == ""


@pytest.mark.parametrize(
    "text",
    ['{"action":"no_reply"}', "NO_REPLYING", "xNO_REPLY", "", "NO", "`NO_REPLY` is a token", "**NO_REPLY** is one too"],
)
def test_not_silent(text: str) -> None:
    assert not is_silent(text) and strip_silence(text) == text


def test_the_token_at_the_edges_goes() -> None:
    assert strip_silence("Done.\n\nNO_REPLY") == "Done."
    assert strip_silence("NO_REPLY Done.") == "Done."
    assert strip_silence("say NO_REPLY now") == "say NO_REPLY now"


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("HEARTBEAT_OK", ""),
        (" HEARTBEAT_OK.\n", ""),
        ("HEARTBEAT_OK HEARTBEAT_OK!!", ""),
        ("HEARTBEAT_OK Your train leaves at 9.", "Your train leaves at 9."),
        ("Your train leaves at 9.\n\nHEARTBEAT_OK", "Your train leaves at 9."),
        ("HEARTBEAT_OK: all is well HEARTBEAT_OK.", "all is well"),
        ("Say HEARTBEAT_OK if all is well", None),
        ("HEARTBEAT_OKAY then", None),
        ("OK, not_HEARTBEAT_OK", None),
        ("heartbeat_ok", None),
        ("The token is `HEARTBEAT_OK`.", None),
        ("**HEARTBEAT_OK**", ""),
        ("Wet.\n\n**HEARTBEAT_OK**", "Wet."),
        ("<b>HEARTBEAT_OK</b>.\nWet.", "Wet."),
        ("Wet. NO_REPLY.", "Wet."),
        ("Answer with **HEARTBEAT_OK**", None),
    ],
)
def test_the_token_of_heartbeats_that_strayed_into_a_reply(text: str, rest: str | None) -> None:
    assert strip_silence(text).strip() == (text.strip() if rest is None else rest)
    assert is_silent(text) == (rest == "")
    assert heard(text).strip() == strip_silence(text).strip()


def heard(deltas: Iterable[str]) -> str:
    hush = SilenceFilter()
    return "".join(hush.feed(d) for d in deltas) + hush.close()


@pytest.mark.parametrize(
    "text", ["NO_REPLY", " NO_REPLY NO_REPLY\n", '{"action": "NO_REPLY"}', "NO_REPLY.", "<b>**HEARTBEAT_OK**</b>!"]
)
def test_letter_by_letter_nothing_comes_out(text: str) -> None:
    hush = SilenceFilter()
    assert [hush.feed(c) for c in text] == [""] * len(text)
    assert hush.close() == ""


def test_what_only_looked_like_it_is_let_go() -> None:
    hush = SilenceFilter()
    assert hush.feed("NO") == ""
    assert hush.feed("TE: a") == "NOTE: a"
    assert hush.feed(" NO_") == " "
    assert hush.feed("W") == "NO_W"
    assert SilenceFilter().feed("No") == "No"
    assert SilenceFilter().feed("NO_REPLY hello") == "hello"
    hush = SilenceFilter()
    assert hush.feed('{"ac') == "" and hush.feed('tive": 1') == '{"active": 1'


@given(
    st.lists(
        st.sampled_from(
            [
                "NO_REPLY",
                "NO",
                "N",
                "HEARTBEAT_OK",
                "HEART",
                "H",
                "!",
                " ",
                "\n",
                "a",
                "_",
                ".",
                '{"action":"',
                "*",
                "<b>",
                "</",
                "`",
            ]
        ),
        max_size=8,
    ),
    st.data(),
)
def test_cuts_do_not_matter(parts: list[str], data: st.DataObject) -> None:
    text = "".join(parts)
    at = data.draw(st.integers(0, len(text)))
    assert heard([text[:at], text[at:]]) == heard([text]) == heard(text)
    assert heard([text]).strip() == strip_silence(text).strip()
