"""What people said in groups without meaning us."""

from __future__ import annotations

from palinurus.core.types.inbound import Attachment, Inbound, Sender, Target
from palinurus.inbox.message import OverheardMessages
from support import inbound

CHAT = Target("fake", "g")


def said(event: str, text: str = "", target: Target = CHAT, **changes: object) -> Inbound:
    return inbound(text or event, target=target, event=event, sender=Sender("7", "Ann"), kind="group", **changes)


def test_only_the_newest_and_each_once() -> None:
    heard = OverheardMessages()
    for event in ("a", "b", "b", "c"):
        heard.note(said(event), 2)
    assert heard.before(CHAT, "d") == ("Ann: b", "Ann: c")
    assert heard.before(CHAT, "c") == ("Ann: b",)
    assert heard.before(Target("fake", "g", thread="1"), "d") == ()


def test_what_was_used_is_forgotten_and_what_came_meanwhile_is_not() -> None:
    heard = OverheardMessages()
    heard.note(said("a"), 5)
    used = heard.before(CHAT, "x")
    heard.note(said("b"), 5)
    heard.forget(CHAT, len(used))
    assert heard.before(CHAT, "x") == ("Ann: b",)
    heard.forget(CHAT, 9)
    heard.forget(CHAT, 9)
    assert heard.before(CHAT, "x") == ()


def test_it_is_bounded() -> None:
    heard = OverheardMessages(chats=2)
    for chat in ("1", "2", "3"):
        heard.note(said("a", "x" * 5000, Target("fake", chat)), 5)
    assert heard.before(Target("fake", "1"), "") == ()
    (line,) = heard.before(Target("fake", "3"), "")
    assert len(line) < 1100
    heard.note(said("a", target=Target("fake", "4")), 0)
    assert heard.before(Target("fake", "4"), "") == ()


def test_a_picture_without_words_is_told_as_such() -> None:
    heard = OverheardMessages()
    heard.note(inbound("", event="a", kind="group", target=CHAT, sender=Sender("7", "Ann")), 5)
    picture = Attachment("/p", "x", "image/png", 1)
    heard.note(inbound("", event="b", kind="group", target=CHAT, sender=Sender("7"), files=(picture,)), 5)
    assert heard.before(CHAT, "") == ("7: [image/png]",)
