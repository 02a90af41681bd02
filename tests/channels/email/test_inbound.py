from __future__ import annotations

from email.message import EmailMessage
from email.policy import SMTP
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.channels.email.inbound import PARSE_ERRORS, EmailIdentity, EmailInbound, parse_mail

ME = EmailIdentity(frozenset({"agent@home.test"}), "mx.home.test", "default")
PASS = "mx.home.test; dmarc=pass header.from=a.test"
NOW = 1_800_000_000_000


def mail(text: str = "hello", **headers: str) -> EmailMessage:
    made = EmailMessage(policy=SMTP)
    usual = {"From": "Ann <Ann@A.test>", "To": "agent@home.test", "Message-ID": "<1@a.test>"}
    for name, value in {**usual, **{key.replace("_", "-"): value for key, value in headers.items()}}.items():
        if value:
            made[name] = value
    made.set_content(text)
    return made


def heard(made: EmailMessage | bytes, me: EmailIdentity = ME) -> Any:
    return parse_mail(made if isinstance(made, bytes) else made.as_bytes(), me, NOW, "7/1")


def test_who_wrote_where_and_in_which_thread() -> None:
    found = heard(mail(Subject="Lunch", Authentication_Results=PASS, Date="Mon, 03 Mar 2025 10:00:00 +0000"))
    inbound = found.inbound
    assert (inbound.sender.id, inbound.sender.name, inbound.kind) == ("ann@a.test", "Ann", "direct")
    assert (inbound.target.to, inbound.target.thread, inbound.event) == ("ann@a.test", "<1@a.test>", "<1@a.test>")
    assert inbound.text == "Subject: Lunch\n\nhello" and inbound.at == 1740996000000
    assert (found.subject, found.references) == ("Lunch", ("<1@a.test>",))


def test_an_answer_belongs_to_the_thread_it_answers() -> None:
    found = heard(mail(Subject="Re: Lunch", References="<0@x> <5@home.test>", In_Reply_To="<5@home.test>"))
    assert found.inbound.target.thread == "<0@x>" and found.inbound.text == "hello"
    assert found.references == ("<0@x>", "<5@home.test>", "<1@a.test>")


@pytest.mark.parametrize("verdict", ["", "mx.evil.test; dmarc=pass header.from=a.test", "mx.home.test; dkim=fail"])
def test_a_from_line_alone_is_nobody(verdict: str) -> None:
    assert heard(mail(Authentication_Results=verdict)).inbound.sender.id == "unverified:ann@a.test"


def test_without_a_server_to_believe_nobody_is_verified() -> None:
    found = heard(mail(Authentication_Results=PASS), msgspec.structs.replace(ME, server=""))
    assert found.inbound.sender.id == "unverified:ann@a.test"


@pytest.mark.parametrize(
    "headers",
    [
        {"Auto_Submitted": "auto-replied"},
        {"Auto_Submitted": "auto-generated; x"},
        {"Precedence": "Bulk"},
        {"List_Id": "<l.a.test>"},
        {"List_Unsubscribe": "<mailto:x@a.test>"},
        {"Return_Path": "<>"},
        {"X_Autoreply": "yes"},
        {"From": "MAILER-DAEMON@a.test"},
        {"From": "no-reply@a.test"},
        {"From": "bounce+x=y@a.test"},
        {"From": "Agent@Home.test"},
        {"From": ""},
        {"From": "ann@a.test, bob@a.test"},
        {"From": "not an address"},
    ],
)
def test_what_is_never_answered(headers: dict[str, str]) -> None:
    assert isinstance(heard(mail(**{"Authentication_Results": PASS, **headers})), str)
    assert isinstance(
        heard(mail(Authentication_Results=PASS, Auto_Submitted="no", Return_Path="<ann@a.test>")), EmailInbound
    )


def test_two_from_lines_are_nobody() -> None:
    raw = b"From: ann@a.test\r\nFrom: eve@b.test\r\nMessage-ID: <1@x>\r\n\r\nhello"
    assert isinstance(heard(raw), str)


def test_a_command_is_one_also_with_a_subject() -> None:
    assert heard(mail("/status", Subject="x")).inbound.text == "/status"


def test_html_alone_files_and_strange_charsets() -> None:
    made = mail()
    made.set_content("<p>Hello <b>you</b></p>", subtype="html")
    made.add_attachment(b"%PDF", maintype="application", subtype="pdf", filename="../plan.pdf")
    found = heard(made)
    assert found.inbound.text == "Hello you"
    assert [(one.name, one.mime, one.source) for one in found.files] == [("../plan.pdf", "application/pdf", b"%PDF")]
    raw = b"From: a@a.test\r\nContent-Type: text/plain; charset=nonsense\r\n\r\nhell\xc3\xb6"
    assert heard(raw).inbound.text == "hellö"


def test_a_mail_without_an_id_has_the_same_one_each_time() -> None:
    first, again = (heard(mail(Message_ID="")) for _ in range(2))
    assert first.inbound.event == again.inbound.event != ""
    other = parse_mail(mail(Message_ID="").as_bytes(), ME, NOW, "7/2")
    assert isinstance(other, EmailInbound) and other.inbound.event != first.inbound.event


@pytest.mark.parametrize("zone", ["-0000", "+0000", "GMT"])
def test_a_time_of_greenwich_is_one_wherever_this_machine_stands(zone: str, nepal: None) -> None:
    assert heard(mail(Date=f"Mon, 03 Mar 2025 10:00:00 {zone}")).inbound.at == 1_740_996_000_000


@given(st.binary(max_size=400), st.sampled_from([b"", b"From: a@a.test\r\n", b"From: a@a.test\r\nContent-Type: "]))
def test_anything_can_come(data: bytes, head: bytes) -> None:
    try:
        found = parse_mail(head + data, ME, NOW, "x")
    except PARSE_ERRORS:
        return
    assert isinstance(found, str) or not found.inbound.sender.owner
