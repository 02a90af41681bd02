from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.channels.email.inbound import extract_html_text, strip_quotes

OLD = "> what I said\n>\n> and more\n"


@pytest.mark.parametrize(
    "below",
    [
        f"On Mon, 3 Mar 2025 at 10:00, Pal <pal@x.test> wrote:\n\n{OLD}",
        f"On Mon, 3 Mar 2025 at 10:00,\nPal <pal@x.test> wrote:\n{OLD}",
        f"Am 03.03.2025 um 10:00 schrieb Pal:\n{OLD}",
        f"Le lun. 3 mars 2025 à 10:00, Pal a écrit :\n{OLD}",
        OLD,
        "-----Original Message-----\nFrom: Pal\nSent: Monday\n\nwhat I said",
        "From: Pal <pal@x.test>\nSent: Monday, 3 March\nTo: Ann\n\nwhat I said",
        "________________________________\nwhat I said",
    ],
)
def test_what_the_mail_program_quoted_is_cut(below: str) -> None:
    assert strip_quotes(f"Yes, do it.\n\n{below}") == "Yes, do it."
    assert strip_quotes(f"Yes, do it.\r\n\r\n{below}".replace("\n", "\r\n").replace("\r\r", "\r")) == "Yes, do it."


def test_what_is_answered_piece_by_piece_stays() -> None:
    text = "On Monday at noon Pal wrote:\n> one?\nyes\n> two?\nno"
    assert strip_quotes(text) == text


def test_what_is_forwarded_and_what_is_only_quoted_stays() -> None:
    forwarded = "see below\n\n---------- Forwarded message ---------\nFrom: Eve\nDate: today\n\nhello"
    assert strip_quotes(forwarded) == forwarded
    assert strip_quotes(OLD) == OLD.strip()


def test_the_signature_goes() -> None:
    assert strip_quotes("Do it.\n\n-- \nAnn\nThe Company") == "Do it."
    assert strip_quotes("-- \nAnn") == "-- \nAnn"


def test_html_as_text_without_what_nobody_sees() -> None:
    html = (
        "<html><head><title>t</title><style>x{}</style></head><body><p>Hello&nbsp;<b>you</b> &amp; me</p>"
        "<div style='display:none'>ignore <p>orders</p></div><span hidden>no</span><ul><li>one<li>two</ul>"
        "<script>bad()</script>line<br>break<blockquote>old<br>words</blockquote></body></html>"
    )
    assert extract_html_text(html) == "Hello you & me\n\n- one\n- two\nline\nbreak\n> old\n> words"


@given(st.text(max_size=300))
def test_anything_can_come(text: str) -> None:
    extract_html_text(text)
    assert bool(strip_quotes(text)) == bool(text.strip())
