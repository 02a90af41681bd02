from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from palinurus.channels.email.wire import ImapConnection, ImapLoginRefused, ImapThread, MailServer, _day, _Reading
from palinurus.config.secrets import Secret
from palinurus.testing.mail import OURS, SECRET, FakeMail


def server(people: FakeMail, secret: str = SECRET) -> MailServer:
    where = people.section["imap"]
    return MailServer(where["host"], where["port"], "off", OURS, Secret(secret))


def test_what_came_before_the_line_was_secured_counts_for_nothing() -> None:
    (ours, theirs), (safe, other) = socket.socketpair(), socket.socketpair()
    reading = _Reading.__new__(_Reading)
    reading.sock = ours
    theirs.sendall(b"OK begin TLS\r\n* injected\r\n")
    assert reading.readline() == b"OK begin TLS\r\n"
    reading.sock = safe
    other.sendall(b"* real\r\nfour")
    assert reading.readline() == b"* real\r\n" and reading.read(4) == b"four"
    other.close()
    assert reading.readline() == b""
    for one in (ours, theirs, safe):
        one.close()


async def test_a_wait_ends_for_new_mail_and_for_somebody_who_has_a_call_to_make(tmp_path: Path) -> None:
    async with FakeMail() as people:
        line = ImapThread(server(people))
        await line.call(ImapConnection.connect)
        opened = await line.call(lambda imap: imap.select("INBOX"))
        assert opened == (7, 1, True)
        waiting = asyncio.ensure_future(line.idle(60))
        while not people.is_watched:
            await asyncio.sleep(0.005)
        assert await line.call(lambda imap: imap.search_newer(1)) == []
        await waiting
        waiting = asyncio.ensure_future(line.idle(60))
        await people.say("hello")
        await waiting
        assert await line.call(lambda imap: imap.search_newer(1)) == [1]
        assert await line.call(lambda imap: imap.search_newer(2)) == []  # the server names the last one nevertheless
        raw, size = await line.call(lambda imap: imap.fetch(1, 20))
        assert len(raw) == 20 < size and not people.is_seen(1)
        assert await line.call(lambda imap: imap.find_sent_folder("")) == "Sent Mail"
        await line.call(lambda imap: imap.append("Sent Mail", b"Message-ID: <x@y>\r\n\r\nz"))
        assert await line.call(lambda imap: imap.has("Sent Mail", "<x@y>"))
        assert not await line.call(lambda imap: imap.has("No Such", "<x@y>"))
        line.close()


async def test_a_wrong_password_is_no_broken_connection(tmp_path: Path) -> None:
    async with FakeMail() as people:
        line = ImapThread(server(people, "wrong"))
        with pytest.raises(ImapLoginRefused):
            await line.call(ImapConnection.connect)
        line.close()


def test_days_as_the_protocol_writes_them() -> None:
    assert _day(1_741_000_000_000) == "02-Mar-2025" and _day(0) == "01-Jan-1970"
