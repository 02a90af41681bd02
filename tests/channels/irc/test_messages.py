from __future__ import annotations

from palinurus.channels.irc.messages import IrcContext, parse_message, parse_server_time
from palinurus.channels.irc.wire import IrcLine

HERE = IrcContext("Pal", "default", "rfc1459", {"ann": "ann-account"})


def said(text: str, to: str = "#Den", source: str = "ann!a@home", **tags: str) -> IrcLine:
    return IrcLine("PRIVMSG", (to, text), source, tags)


def test_who_is_meant_in_a_room() -> None:
    table = {
        "pal: hi": ("hi", True), "PAL, hi": ("hi", True), "@pal hi": ("hi", True), "pal": ("", True),
        "ask pal about it": ("ask pal about it", True), "palindrome": ("palindrome", False),
        "pal-2: hi": ("pal-2: hi", False), "opal": ("opal", False), "well, pal!": ("well, pal!", True),
    }  # fmt: skip
    for text, (left, meant) in table.items():
        found = parse_message(said(text), HERE, "f", 5)
        assert found is not None and (found.text, found.mentioned) == (left, meant), text
        assert (found.target.to, found.kind, found.title, found.event, found.at) == ("#den", "group", "#Den", "f", 5)


def test_what_is_said_to_the_ranks_of_a_room_is_said_in_it() -> None:
    for where, room in {
        "@#den": "#den",
        "+#den": "#den",
        "&local": "&local",
        "@&local": "&local",
        "#den": "#den",
    }.items():
        found = parse_message(said("pal: x", where), HERE, "f", 0)
        assert found is not None and (found.target.to, found.kind) == (room, "group")


def test_accounts_of_the_line_and_remembered_ones() -> None:
    def who(line: IrcLine) -> tuple[str, tuple[str, ...], bool]:
        found = parse_message(line, HERE, "f", 0)
        assert found is not None and not found.sender.owner and not found.sender.allowed
        return found.sender.id, found.sender.also, found.sender.bot

    assert who(said("x", account="real")) == ("real", ("ann!a@home",), False)
    assert who(said("x")) == ("ann-account", ("ann!a@home",), False)
    assert who(said("x", source="bob!b@home", bot="")) == ("bob!b@home", (), True)


def test_direct_messages_ids_times_and_me() -> None:
    found = parse_message(
        said("\x01ACTION waves\x01", "Pal", msgid="m1", time="2026-01-01T00:00:00.500Z"), HERE, "f", 0
    )
    assert found is not None and found.text == "* ann waves" and found.event == "m1"
    assert (found.target.to, found.kind, found.at) == ("ann!a@home", "direct", 1767225600500)
    assert parse_server_time("never") == 0


def test_what_is_nobody_speaking() -> None:
    for one in (
        IrcLine("NOTICE", ("Pal", "x"), "ann!a@home"), said("\x01PING 1\x01"), said("x", source="irc.server"),
        said("x", source="pal!p@p"), said("x", source="ChanServ!s@services"), said("x", source="*status!z@znc"),
        said("\x02\x0f"), IrcLine("PRIVMSG", ("x",), "ann!a@home"),
    ):  # fmt: skip
        assert parse_message(one, HERE, "f", 0) is None, one
