from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from palinurus.channels.irc.wire import IrcLine, fold_name, format_line, parse_line, split_text, strip_formatting


def test_lines_as_servers_write_them() -> None:
    assert parse_line(b"PING :x y\r\n") == IrcLine("PING", ("x y",))
    assert parse_line(b":a!b@c PRIVMSG #x ::) hi\r\n") == IrcLine("PRIVMSG", ("#x", ":) hi"), "a!b@c")
    tagged = parse_line(rb"@time=2026-01-01T00:00:00.000Z;account=ann;+x=a\:b\sc\\;bot :a JOIN #x")
    assert tagged is not None and tagged.tags["+x"] == "a;b c\\" and tagged.tags["bot"] == ""
    assert parse_line(b":s 005 me A=1 B :are supported") == IrcLine("005", ("me", "A=1", "B", "are supported"), "s")
    assert parse_line(b"\r\n") is None and parse_line(b":only") is None
    latin = parse_line("PRIVMSG x :größe".encode("latin-1"))
    assert latin is not None and latin.get(1) == "größe" and latin.get(9) == ""


def test_names_and_colours() -> None:
    assert fold_name("Nick[A]\\^") == "nick{a}|~" and fold_name("Nick[A]", "ascii") == "nick[a]"
    assert strip_formatting("\x02b\x0f \x0304,12red\x03 5\x1d\x04ff0000x") == "b red 5x"


@given(st.binary(max_size=600))
def test_nothing_a_server_sends_breaks_the_reader(data: bytes) -> None:
    got = parse_line(data)
    assert got is None or got.command


@given(st.text(max_size=50), st.text(max_size=200))
def test_what_is_sent_is_one_line(target: str, text: str) -> None:
    data = format_line("PRIVMSG", target, text)
    assert data.count(b"\n") == 1 and data.count(b"\r") == 1 and data.endswith(b"\r\n") and b"\0" not in data


@given(st.text(max_size=2000), st.integers(8, 400))
def test_pieces_fit_are_whole_characters_and_lose_nothing(text: str, most: int) -> None:
    found = split_text(text, most)
    assert all(len(one.encode("utf-8", "replace")) <= most and one.strip() for one in found)
    assert "".join("".join(found).split()) == "".join(text.replace("\0", "").split())
