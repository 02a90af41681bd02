from __future__ import annotations

import base64
import contextlib

import msgspec
import pytest

from palinurus.channels.irc.messages import explain_irc_refusal
from palinurus.channels.irc.session import IrcRefusal, IrcSession, IrcSettings
from palinurus.channels.irc.wire import IrcLine, parse_line
from palinurus.config.secrets import Secret

PLAN = IrcSettings("pal", "pal", "A pal", ("#den",), "default")


def fed(session: IrcSession, *lines: str) -> list[str]:
    out: list[bytes] = []
    for one in lines:
        got = parse_line(one.encode())
        assert got is not None
        out += session.feed(got)
    return [one.decode().strip() for one in out]


def test_a_server_of_today() -> None:
    session = IrcSession(msgspec.structs.replace(PLAN, secret=Secret("pw"), login="me", password=Secret("server")))
    assert session.opening() == [b"CAP LS 302\r\n", b"PASS :server\r\n", b"NICK :pal\r\n", b"USER pal 0 * :A pal\r\n"]
    assert fed(session, ":s CAP * LS * :account-tag multi-prefix") == []
    assert fed(session, ":s CAP * LS :sasl=PLAIN,EXTERNAL") == ["CAP REQ :account-tag sasl"]
    assert fed(session, ":s CAP * ACK :account-tag sasl") == ["AUTHENTICATE PLAIN"]
    (login,) = fed(session, "AUTHENTICATE +")
    assert base64.b64decode(login.split()[1]) == b"me\0me\0pw"
    assert fed(session, ":s 903 pal :ok") == ["CAP END"]
    assert fed(session, ":s 001 pal :hi", ":s 005 pal CASEMAPPING=ascii BOT=B :ok") == ["MODE pal :+B"]
    join, ping = fed(session, ":s 376 pal :end")
    assert join == "JOIN :#den" and not session.ready and session.mapping == "ascii"
    fed(session, ":pal!p@h JOIN #den", f":s PONG s {ping.split()[1]}")
    assert session.ready and session.missing() == [] and session.mask == "pal!p@h"
    assert fed(session, ":op!o@h KICK #den pal :out") == [] and session.missing() == ["#den"]


def test_nicks_that_are_taken_and_passwords_that_are_wrong() -> None:
    session = IrcSession(PLAN)
    tried = [fed(session, ":s 433 * x :taken")[0] for _ in range(4)]
    assert tried[:3] == ["NICK :pal_", "NICK :pal__", "NICK :pal___"] and tried[3].startswith("NICK :pal")
    for number, login in (("904", True), ("464", True), ("465", False), ("432", False)):
        with pytest.raises(IrcRefusal) as caught:
            fed(IrcSession(PLAN), f":s {number} * :no")
        assert caught.value.login is login


def test_a_login_is_forgotten_when_its_nick_may_change_hands() -> None:
    def known(*lines: str) -> dict[str, str]:
        session = IrcSession(PLAN)
        session.caps = {"extended-join"}
        fed(session, ":ann!a@h JOIN #den ann-account :Ann", *lines)
        return session.here.logins

    assert known() == {"ann": "ann-account"}
    assert known(":ann!a@h NICK ann2") == {"ann2": "ann-account"}
    assert known(":ann!a@h ACCOUNT *") == {}
    assert known(":ann!a@h QUIT :bye") == {}
    assert known(":ann!a@h PART #den") == {}
    assert known(":op!o@h KICK #den ann :out") == {}
    assert known(":op!o@h KICK #den pal :out") == {}
    assert known(":eve!e@h NICK ann") == {}
    session = IrcSession(PLAN)
    session.caps = {"extended-join", "account-tag"}
    session.feed(IrcLine("JOIN", ("#den", "x", "X"), "ann!a@h"))
    assert session.here.logins == {}  # lines say it themselves


@pytest.mark.parametrize("line", [":s CAP", ":s 904", ":s 464", ":s 473", ":s PONG", ":s FAIL *", ":s FAIL"])
def test_lines_without_words_break_nothing(line: str) -> None:
    session = IrcSession(PLAN)
    session.welcome = True
    got = parse_line(line.encode())
    assert got is not None
    with contextlib.suppress(IrcRefusal):  # what the server refuses it may refuse in silence
        session.feed(got)
    explain_irc_refusal(got)


def test_a_nick_is_registered_where_the_config_asks_for_it() -> None:
    session = IrcSession(msgspec.structs.replace(PLAN, secret=Secret("pw"), register="pal@example.org"))
    session.opening()
    assert fed(session, ":s CAP * LS :sasl=PLAIN") == ["CAP END"]  # there is nothing to sign in with yet
    said = fed(session, ":s 001 pal :hi", ":s 376 pal :end")
    assert said[0] == "PRIVMSG NickServ :REGISTER pw pal@example.org" and not any("IDENTIFY" in one for one in said)
