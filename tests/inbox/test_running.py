"""The words around messages that were put together or dropped."""

from __future__ import annotations

from palinurus.core.types.inbound import Sender
from palinurus.inbox import running
from support import inbound, read


def test_several_messages_as_one_turn() -> None:
    assert running.number_first(inbound("a")).text == "[Queued messages while agent was busy]\n\n---\nQueued #1\na"
    group = inbound("b", kind="group", sender=Sender("7", "Ann"))
    assert running.number_further(group, 2).text == "---\nQueued #2 (from Ann)\nb"


def test_what_was_dropped_is_told_first() -> None:
    note = running.tell_overflow(2, ("x", "y"))
    assert note == "[Queue overflow] Dropped 2 message(s) due to cap.\n- x\n- y"
    assert running.number_first(inbound("a"), note).text.startswith(
        f"[Queued messages while agent was busy]\n\n{note}\n\n---"
    )
    assert running.prepend_note(inbound("a"), note).text == f"{note}\n\na"
    assert running.tell_overflow(0, ()) == "" and running.prepend_note(inbound("a"), "").text == "a"


def test_only_a_trusted_senders_directives_are_taken_out() -> None:
    assert read(inbound("do /think low this")).said.text == "do /think low this"
    owner = inbound("do /think low this", sender=Sender("me", owner=True))
    assert "/think" not in read(owner).said.text
    path = inbound("see /etc/hosts", sender=Sender("me", owner=True))
    assert read(path).said == path
