"""The frames machine: what it makes of any text, and that taking it in pieces changes nothing."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from palinurus.core.types.events import MessageUpdate
from palinurus.gateway.openai.completions import OpenAiReply
from palinurus.gateway.openai.stream import CompletionStream


def pieces(data: bytes) -> list[str]:
    found = []
    for block in data.decode().split("\n\n")[:-1]:
        assert block.startswith("data: ") and "\n" not in block
        if block != "data: [DONE]":
            found += [c["delta"].get("content", "") for c in json.loads(block[6:])["choices"]]
    return found


# What may become a tag, a mark or the silence token waits for its end; words do not.
PLAIN = st.text('abc xyz äß 日 😀 . , " \\ \n', min_size=1).map(lambda text: "a" + text)


@given(st.lists(PLAIN, max_size=5), st.lists(st.booleans(), max_size=5))
def test_every_delta_is_one_chunk_however_it_is_taken(deltas: list[str], takes: list[bool]) -> None:
    frames = CompletionStream("id", 1, 'a"model\n')
    data = b""
    for number, delta in enumerate(deltas):
        frames.feed(MessageUpdate(delta))
        if number < len(takes) and takes[number]:
            data += frames.take()
    frames.finish(OpenAiReply(), None)
    data += frames.take()
    assert data.endswith(b"data: [DONE]\n\n")
    assert [p for p in pieces(data) if p] == [d for d in deltas if d]


def test_thinking_is_not_said() -> None:
    frames = CompletionStream("id", 1, "m")
    frames.feed(MessageUpdate("secret thought", "thinking"))
    assert b"secret" not in frames.take()


def test_a_comment_only_into_silence() -> None:
    frames = CompletionStream("id", 1, "m")
    frames.keep_alive()
    assert b"keep-alive" not in frames.take()  # the role chunk still waited
    frames.keep_alive()
    assert frames.take() == b": keep-alive\n\n"


def test_after_mute_nothing_piles_up() -> None:
    frames = CompletionStream("id", 1, "m", events=True)
    frames.mute()
    frames.feed(MessageUpdate("x"))
    frames.note("n", {})
    frames.keep_alive()
    assert frames.take() == b""
