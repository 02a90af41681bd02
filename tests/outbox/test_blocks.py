"""Events to replies."""

from __future__ import annotations

import pytest

from palinurus.core.types.events import AgentEnd, End, MessageUpdate
from palinurus.core.types.messages import Assistant, Text, ToolCall
from palinurus.core.types.model import Failure
from palinurus.core.types.usage import Usage
from palinurus.outbox.blocks import Blocks
from support import inbound


def spoken(*texts: str) -> tuple[Assistant, ...]:
    return tuple(Assistant((Text(t),)) for t in texts)


def end(*texts: str, kind: End = "stop", failure: Failure | None = None) -> AgentEnd:
    return AgentEnd(spoken(*texts), kind, Usage(), failure)


def test_the_final_text_is_one_reply_with_a_stable_id() -> None:
    for _ in range(2):
        blocks = Blocks(inbound(), "item")
        blocks.feed(MessageUpdate("ignored: the end says it all"))
        blocks.feed(end("Let me look.", "Here it is."))
        (reply,) = blocks.close()
        assert (reply.text, reply.client_id, reply.kind) == ("Let me look.\n\nHere it is.", "item.0", "final")


@pytest.mark.parametrize("text", ["NO_REPLY", " no_reply \n", "NO_REPLY NO_REPLY", "", "  "])
def test_silence(text: str) -> None:
    blocks = Blocks(inbound(), "item")
    blocks.feed(end(text))
    assert blocks.close() == ()


def test_not_silence() -> None:
    blocks = Blocks(inbound(), "item")
    blocks.feed(end("NO_REPLY."))
    assert [r.text for r in blocks.close()] == ["NO_REPLY."]


def test_an_error_is_explained_and_what_was_said_is_kept() -> None:
    blocks = Blocks(inbound(), "item")
    blocks.feed(end("I was about", kind="error", failure=Failure("cut", "the stream ended early.")))
    replies = blocks.close()
    assert [(r.kind, r.text) for r in replies] == [
        ("final", "I was about"),
        ("notice", "⚠️ No answer: the stream ended early."),
    ]
    assert [r.client_id for r in replies] == ["item.0", "item.1"]


def test_an_aborted_run_says_so() -> None:
    blocks = Blocks(inbound(), "item")
    blocks.feed(AgentEnd((Assistant((ToolCall("1", "a", {}),)),), "aborted", Usage()))
    assert [r.text for r in blocks.close()] == ["⚙️ Agent was aborted."]


def test_a_client_that_reads_the_events_gets_no_rows() -> None:
    blocks = Blocks(inbound(push=False), "item")
    blocks.feed(end("hello"))
    assert blocks.close() == ()
