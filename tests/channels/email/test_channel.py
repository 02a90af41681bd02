"""Whole messages through the App: what people see in their mailboxes."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from email.message import EmailMessage
from email.policy import SMTP
from pathlib import Path
from typing import Any

import pytest

from channels.scene import asked, running, texts, until
from palinurus.channels.email.channel import EmailChannel, make_email_channel
from palinurus.core.types.channel import SendFailure, SendReceipt
from palinurus.core.types.inbound import Target
from palinurus.core.types.outbound import Reply
from palinurus.errors import ConfigError
from palinurus.testing.conformance.channel import PNG
from palinurus.testing.mail import HUMAN, OURS, FakeMail
from palinurus.testing.model import ScriptedModel, say
from palinurus.testing.platform import make_channel_kit

FRESH = {"In_Reply_To": "", "References": ""}


async def test_a_conversation_in_its_thread(tmp_path: Path) -> None:
    model = ScriptedModel([say("Hello, **human**."), say("Yes.")])
    async with FakeMail() as people, running(tmp_path / "h", model, people, HUMAN):
        first = await people.say("hello", times=3, Subject="Lunch", **FRESH)
        await until(lambda: texts(people) == ["Hello, human."])
        answer = people.delivered[0][1]
        assert answer["Subject"] == "Re: Lunch" and answer["In-Reply-To"] == first
        below = "On Mon, 3 Mar 2025, Agent wrote:\n> Hello, human.\n"
        ident = str(answer["Message-ID"])
        second = await people.say(f"still there?\n\n{below}", In_Reply_To=ident, References=f"{first} {ident}")
        await until(lambda: texts(people) == ["Hello, human.", "Yes."])
        await until(lambda: all(people.is_seen(number) for number in (1, 2, 3, 4)))
    last = people.delivered[1][1]
    assert last["In-Reply-To"] == second and str(last["References"]).split() == [first, ident, second]
    assert "Subject: Lunch" in asked(model, 0) and asked(model).endswith("still there?")
    assert len(model.requests[1].messages) == 3  # one session


async def test_a_forged_from_line_has_no_rights(tmp_path: Path) -> None:
    """Not the owner's, not those of somebody on the list, and nothing is said about commands."""
    model = ScriptedModel([say("Real.")])
    async with FakeMail() as people, running(tmp_path / "h", model, people, HUMAN) as app:
        for verdict in ("", "mx.evil.test; dmarc=pass header.from=people.test", "mx.home.test; dmarc=fail"):
            await people.say("/status", Authentication_Results=verdict)
        await until(lambda: all(people.is_seen(number) for number in (1, 2, 3)))
        assert people.delivered == [] and model.requests == []
        await people.say("hello")
        await until(lambda: texts(people) == ["Real."])
        assert app.channels["email"].status().detail == ""


async def test_strangers_may_ask_but_not_as_the_owner(tmp_path: Path) -> None:
    model = ScriptedModel([say("Hello stranger.")])
    own = {"dmPolicy": "open", "allowFrom": ["*"]}
    async with FakeMail() as people, running(tmp_path / "h", model, people, HUMAN, own):
        await people.say("hi", Authentication_Results="")
        await until(lambda: texts(people) == ["Hello stranger."])
    source = model.requests[0].messages[-1].source  # type: ignore[union-attr]
    assert source == f"stranger unverified:{HUMAN}"


async def test_programs_and_lists_are_never_answered(tmp_path: Path) -> None:
    model = ScriptedModel([say("Once.")])
    async with FakeMail() as people, running(tmp_path / "h", model, people, HUMAN):
        await people.say("away", Auto_Submitted="auto-replied")
        await people.say("news", List_Id="<l.people.test>")
        await people.say("bounce", Return_Path="<>")
        await people.say("ourselves", From=OURS)
        people.arrive(b"\xff\xfe\x00 no mail at all")
        await people.say("hello")
        await until(lambda: texts(people) == ["Once."])
        await until(lambda: all(people.is_seen(number) for number in range(1, 7)))
    assert len(model.requests) == 1


async def test_our_own_answer_would_not_be_answered(tmp_path: Path) -> None:
    """Two programs like us do not talk for ever."""
    model = ScriptedModel([say("Hello."), say("Done.")])
    async with FakeMail() as people, running(tmp_path / "h", model, people, HUMAN):
        await people.say("hi")
        await until(lambda: bool(people.delivered))
        back = people.delivered[0][1]
        del back["From"], back["Message-ID"]
        back["From"], back["Message-ID"] = HUMAN, "<other@people.test>"
        people.arrive(back.as_bytes())
        await people.say("and?")
        await until(lambda: texts(people) == ["Hello.", "Done."])
    assert len(model.requests) == 2


async def test_files_in_and_out_and_a_long_answer_in_parts(tmp_path: Path) -> None:
    long = "\n\n".join(f"Paragraph {n}. " + "word " * 60 for n in range(20))
    model = ScriptedModel([say(f"Look.\n\nMEDIA:{tmp_path}/w/cat.png"), say(long)])
    agents = {"defaults": {"model": {"primary": "fake/m"}, "workspace": str(tmp_path / "w")}}
    async with FakeMail() as people:
        async with running(tmp_path / "h", model, people, HUMAN, {"textChunkLimit": 2000}, agents=agents):
            (tmp_path / "w" / "cat.png").write_bytes(PNG)
            await people.say("plan attached")
            await until(lambda: bool(people.visible_messages()))
            assert people.visible_messages()[0][1:3] == ("Look.", ("cat.png",))
            await people.say("more")
            await until(lambda: "Paragraph 19." in texts(people)[-1])
    parts = texts(people)[1:]
    assert len(parts) > 2 and all(len(part) <= 2000 for part in parts)


async def test_an_attachment_is_kept_and_named(tmp_path: Path) -> None:
    model = ScriptedModel([say("Read.")])
    async with FakeMail() as people, running(tmp_path / "h", model, people, HUMAN):
        made = EmailMessage(policy=SMTP)
        made["From"], made["To"], made["Message-ID"] = HUMAN, OURS, "<f@people.test>"
        made["Authentication-Results"] = "mx.home.test; dkim=pass header.d=people.test"
        made.set_content("see file")
        made.add_attachment(b"x = 1\n", maintype="text", subtype="x-python", filename="a.py")
        people.arrive(made.as_bytes())
        await until(lambda: texts(people) == ["Read."])
    assert "[file a.py (text/x-python, 6 bytes) at " in asked(model)


async def test_what_goes_wrong_with_an_answer_and_what_people_see_then(tmp_path: Path) -> None:
    model = ScriptedModel([say("slowly"), say("never"), say("once"), say("last")])
    async with FakeMail() as people, running(tmp_path / "h", model, people, HUMAN):
        people.fail("down", 1)
        await people.say("one")
        await until(lambda: not people.faults)
        await until(lambda: texts(people) == ["slowly"])
        people.fail("gone")
        await people.say("two")
        await until(lambda: len(model.requests) == 2 and not people.faults)
        people.fail("cut")  # delivered, and nobody told us: it is found among the sent mails
        await people.say("three")
        await until(lambda: texts(people) == ["slowly", "once"])
        await people.say("four")
        await until(lambda: texts(people) == ["slowly", "once", "last"])


async def test_old_mail_is_left_alone_and_a_new_numbering_loses_nothing(tmp_path: Path) -> None:
    model = ScriptedModel([say("One."), say("Two.")], repeat=True)
    async with FakeMail() as people:
        await people.say("from before we were there")
        async with running(tmp_path / "h", model, people, HUMAN):
            await people.say("first")
            await until(lambda: texts(people) == ["One."])
            await until(lambda: people.is_seen(2))
        people.flags[("INBOX", 1)] = {r"\Seen"}
        await people.say("while we were away")
        people.validity = 8  # the provider rebuilt the mailbox
        async with running(tmp_path / "h", model, people, HUMAN):
            await until(lambda: texts(people) == ["One.", "Two."])
    assert len(model.requests) == 2


async def test_a_minute_without_a_server_loses_nothing(tmp_path: Path) -> None:
    model = ScriptedModel([say("Back.")])
    async with FakeMail() as people, running(tmp_path / "h", model, people, HUMAN) as app:
        await people.cut()
        await until(lambda: app.channels["email"].status().state == "reconnecting")
        await people.say("are you there?")
        await people.mend()
        await until(lambda: texts(people) == ["Back."])


async def test_a_wrong_password_is_told_and_not_tried_for_ever(tmp_path: Path) -> None:
    async with FakeMail() as people:
        section = people.section
        people.secret = "another"
        channel = make_email_channel(make_channel_kit("email", str(tmp_path), section))
        await channel.run(lambda inbound: None)  # type: ignore[arg-type,return-value]
        assert channel.status().state == "signed_out" and "password" in channel.status().detail


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, str]:
    folder = tmp_path_factory.mktemp("tls")
    key, cert = folder / "key.pem", folder / "cert.pem"
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    line = ["openssl", "req", "-x509", *curve, "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run([*line, *names, "-keyout", str(key), "-out", str(cert)], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return context, str(cert)


@pytest.mark.parametrize("later", [False, True])
async def test_over_tls_with_a_certificate_that_is_known_and_with_one_that_is_not(
    tmp_path: Path, certificate: tuple[ssl.SSLContext, str], later: bool
) -> None:
    """`later`: STARTTLS; what was said before it (the fake says something false) is not believed."""
    context, cert = certificate
    model = ScriptedModel([say("Safe.")])
    async with FakeMail(tls=context, later=later) as people:
        own = {which: {**people.section[which], "tlsCaFile": cert} for which in ("imap", "smtp")}
        async with running(tmp_path / "h", model, people, HUMAN, own):
            await people.say("hello")
            await until(lambda: texts(people) == ["Safe."])
        async with _unready(tmp_path / "h2", people) as channel:
            await until(lambda: "certificate" in channel.status().detail)


async def test_nobody_gets_a_code_who_perhaps_never_wrote(tmp_path: Path) -> None:
    own = {"dmPolicy": "pairing", "allowFrom": []}
    async with FakeMail() as people, running(tmp_path / "h", ScriptedModel([]), people, HUMAN, own):
        await people.say("let me in", sender="eve", Authentication_Results="")
        await people.say("let me in", sender="ann")
        await until(lambda: bool(texts(people, "ann")))
        assert "pal pairing approve" in texts(people, "ann")[0] and texts(people, "eve") == []


class _unready:
    """A channel that does not become ready, running."""

    def __init__(self, folder: Path, people: FakeMail) -> None:
        self._channel = make_email_channel(make_channel_kit("email", str(folder), people.section))

    async def __aenter__(self) -> EmailChannel:
        self._task: Any = asyncio.ensure_future(self._channel.run(lambda inbound: None))  # type: ignore[arg-type,return-value]
        return self._channel

    async def __aexit__(self, *exc: object) -> None:
        self._task.cancel()


def test_what_is_missing_or_unsafe_is_told_at_the_start(tmp_path: Path) -> None:
    good: dict[str, Any] = {"address": "a@b.c", "password": "p", "imap": {"host": "i"}, "smtp": {"host": "s"}}
    assert isinstance(make_email_channel(make_channel_kit("email", str(tmp_path), good)), EmailChannel)
    for change, words in (
        ({"address": ""}, "address"),
        ({"imap": {}}, "imap.host"),
        ({"password": ""}, "imap.password"),
        ({"smtp": {"host": "s.test", "tls": False}}, "smtp.tls"),
    ):
        with pytest.raises(ConfigError, match=words):
            make_email_channel(make_channel_kit("email", str(tmp_path), {**good, **change}))


def test_secrets_do_not_show(tmp_path: Path) -> None:
    made = make_email_channel(
        make_channel_kit(
            "email",
            str(tmp_path),
            {"address": "a@b.c", "password": "hunter2", "imap": {"host": "i"}, "smtp": {"host": "s"}},
        )
    )
    assert "hunter2" not in repr(made._imap) + repr(made._smtp)


@pytest.mark.parametrize("to", ["", "nobody", "a@b.c\nBcc: eve@x.y", "a@b.c, eve@x.y", "Ann <a@b.c>"])
async def test_what_is_no_address_gets_no_mail(tmp_path: Path, to: str) -> None:
    async with FakeMail() as people:
        answer = await people.channel(str(tmp_path)).send(Reply(Target("email", to), "hi", "c1"))
        assert isinstance(answer, SendFailure) and answer.trouble == "gone" and people.delivered == []


async def test_a_mail_that_nobody_asked_for_begins_a_thread(tmp_path: Path) -> None:
    async with FakeMail() as people:
        channel = people.channel(str(tmp_path))
        odd = Target("email", HUMAN, thread="<x>\r\nBcc: eve@x.y")
        for target, reply_to in ((Target("email", HUMAN), ""), (odd, "<y>\nBcc: eve@x.y")):
            assert isinstance(await channel.send(Reply(target, "hi", f"c{reply_to}", reply_to=reply_to)), SendReceipt)
    for to, mail in people.delivered:
        assert (to, mail["Subject"], mail["In-Reply-To"], mail["Bcc"]) == (HUMAN, "A message for you", None, None)
