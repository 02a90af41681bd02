from __future__ import annotations

import pytest

from palinurus.channels.email.outbound import MailEnvelope, build_mail, explain_smtp_refusal, make_message_id
from palinurus.channels.kit import ChannelFile
from palinurus.core.types.inbound import Target
from palinurus.core.types.outbound import Reply

WHO = MailEnvelope("agent@home.test", "Pal", "Re: Lunch\r\nBcc: eve@x", ("<0@x>", "<1@a>"), 0)


def test_text_with_html_beside_it_in_its_thread() -> None:
    made = build_mail(
        Reply(Target("email", "ann@a.test", thread="<0@x>"), "**bold** & <b>", "c1", reply_to="<1@a>"), [], WHO
    )
    plain, html = (made.get_body((kind,)) for kind in ("plain", "html"))
    assert plain is not None and plain.get_content().strip() == "bold & <b>"
    assert html is not None and "<strong>bold</strong> &amp; &lt;b&gt;" in html.get_content()
    assert (made["In-Reply-To"], made["References"]) == ("<1@a>", "<0@x> <1@a>")
    assert made["Auto-Submitted"] == "auto-replied" and made["Bcc"] is None
    assert made["Message-ID"] == make_message_id("c1", "agent@home.test") != make_message_id("c2", "agent@home.test")


def test_plain_is_plain_and_files_keep_their_names() -> None:
    files = [ChannelFile("a\nb.png", "image/png", b"x"), ChannelFile("c", "strange", b"y")]
    made = build_mail(Reply(Target("email", "ann@a.test"), "**as is**", "c1", plain=True), files, WHO)
    assert made.get_body(("html",)) is None
    assert [(one.get_filename(), one.get_content_type()) for one in made.iter_attachments()] == [
        ("a b.png", "image/png"),
        ("c", "strange/octet-stream"),
    ]


@pytest.mark.parametrize(
    ("code", "text", "files", "word"),
    [
        (421, "4.7.0 too many connections", False, "limited"),
        (421, "closing", False, "down"),
        (450, "4.2.0 greylisted", False, "down"),
        (451, "4.7.1 later", False, "limited"),
        (535, "5.7.8 bad", False, "signed_out"),
        (550, "5.1.1 no such user", False, "gone"),
        (550, "5.7.1 spam", False, "blocked"),
        (550, "no mailbox", False, "gone"),
        (552, "5.3.4 too big", False, "long"),
        (552, "5.3.4 too big", True, "media"),
        (554, "no", False, "refused"),
        (599, "what", False, "refused"),
        (499, "what", False, "down"),
    ],
)
def test_every_refusal_has_its_word(code: int, text: str, files: bool, word: str) -> None:
    found = explain_smtp_refusal(code, text.encode(), files)
    assert found.trouble == word and (found.retry_after is not None) == (word == "limited")
