"""Events to replies."""

from __future__ import annotations

import pytest

from palinurus.core.stream.chunk import BlockSettings
from palinurus.core.stream.marks import allow_beneath
from palinurus.core.types.events import (
    AgentEnd,
    AgentStart,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    RunEndReason,
    RunEvent,
    ToolEnd,
    ToolStart,
    ToolUpdate,
)
from palinurus.core.types.messages import AssistantMessage, TextBlock, ThinkingBlock, ToolCall, ToolResult
from palinurus.core.types.model import ModelFailure
from palinurus.core.types.outbound import Reply, RunVisibility
from palinurus.core.types.usage import TokenUsage
from palinurus.outbox.blocks import BlockSpeaker
from support import inbound


def spoken(*texts: str) -> tuple[AssistantMessage, ...]:
    return tuple(AssistantMessage((TextBlock(t),)) for t in texts)


def end(*texts: str, kind: RunEndReason = "stop", failure: ModelFailure | None = None) -> AgentEnd:
    return AgentEnd(spoken(*texts), kind, TokenUsage(), failure)


def test_the_final_text_is_one_reply_with_a_stable_id() -> None:
    for _ in range(2):
        blocks = BlockSpeaker(inbound(), "item")
        blocks.feed(MessageUpdate("ignored: the end says it all"))
        blocks.feed(end("Let me look.", "Here it is."))
        (reply,) = blocks.close()
        assert (reply.text, reply.client_id, reply.kind) == ("Let me look.\n\nHere it is.", "item.0", "final")


@pytest.mark.parametrize("text", ["NO_REPLY", " no_reply \n", "NO_REPLY NO_REPLY", "NO_REPLY.", "", "  "])
def test_silence(text: str) -> None:
    blocks = BlockSpeaker(inbound(), "item")
    blocks.feed(end(text))
    assert blocks.close() == ()


def test_not_silence() -> None:
    blocks = BlockSpeaker(inbound(), "item")
    blocks.feed(end("`NO_REPLY` says nothing"))
    assert [r.text for r in blocks.close()] == ["`NO_REPLY` says nothing"]


def test_an_error_is_explained_and_what_was_said_is_kept() -> None:
    blocks = BlockSpeaker(inbound(), "item")
    blocks.feed(end("I was about", kind="error", failure=ModelFailure("cut", "the stream ended early.")))
    replies = blocks.close()
    assert [(r.kind, r.text) for r in replies] == [
        ("final", "I was about"),
        ("notice", "⚠️ No answer: the stream ended early."),
    ]
    assert [r.client_id for r in replies] == ["item.0", "item.1"]


def test_an_aborted_run_says_so() -> None:
    blocks = BlockSpeaker(inbound(), "item")
    blocks.feed(AgentEnd((AssistantMessage((ToolCall("1", "a", {}),)),), "aborted", TokenUsage()))
    assert [r.text for r in blocks.close()] == ["⚙️ Agent was aborted."]


def test_a_client_that_reads_the_events_gets_no_rows() -> None:
    blocks = BlockSpeaker(inbound(push=False), "item")
    blocks.feed(end("hello"))
    assert blocks.close() == ()


# --- tools

CHECK = {"command": "node --check /tmp/app.js"}
CALL = ToolCall("c1", "exec", CHECK)


def heard(message: AssistantMessage, delta: int = 0) -> list[RunEvent]:
    """A message of the model as a run shows it; with `delta`, in pieces of that size."""
    deltas = [message.text[i : i + delta] for i in range(0, len(message.text), delta)] if delta else []
    return [MessageStart(), *(MessageUpdate(d) for d in deltas), MessageEnd(message)]


def used(name: str = "exec", ident: str = "c1", text: str = "fine", *, error: bool = False) -> list[RunEvent]:
    result = ToolResult(ident, name, (TextBlock(text),), error)
    return [
        ToolStart(ident, name, CHECK if name == "exec" else {"path": "a.md"}),
        ToolEnd(ident, name, result, error, 5),
    ]


def ran(blocks: BlockSpeaker, events: list[RunEvent]) -> list[Reply]:
    return [reply for event in events for reply in blocks.feed(event)]


def shown(replies: list[Reply] | tuple[Reply, ...]) -> list[tuple[str, str]]:
    return [(r.kind, r.text) for r in replies]


@pytest.mark.seed(97, 98, 323)
def test_a_tool_has_its_own_bubble_when_it_starts() -> None:
    blocks = BlockSpeaker(inbound(), "item", lambda: RunVisibility(verbose="on"))
    first = AssistantMessage((TextBlock("Let me look."), CALL))
    assert ran(blocks, heard(first)) == []
    start, done = used()
    said, bubble = blocks.feed(start)
    assert (said.kind, said.text) == ("block", "Let me look.")  # what was said before goes first
    assert (bubble.kind, bubble.client_id) == ("tool", "item.t-c1")
    assert bubble.text == "🛠️ Exec: check JS syntax for /tmp/app.js"
    assert blocks.feed(done) == ()  # no output
    last = AssistantMessage((TextBlock("All good."),))
    assert ran(blocks, [*heard(last), AgentEnd((first, last), "stop", TokenUsage())]) == []
    assert shown(blocks.close()) == [("final", "All good.")]


def test_with_verbose_off_there_are_no_bubbles() -> None:
    blocks = BlockSpeaker(inbound(), "item")
    assert ran(blocks, [*heard(AssistantMessage((TextBlock("Let me look."), CALL))), *used()]) == []


@pytest.mark.seed(105)
def test_raw_detail() -> None:
    blocks = BlockSpeaker(inbound(), "item", lambda: RunVisibility(verbose="on", detail="raw"))
    assert ran(blocks, used())[0].text.endswith("for /tmp/app.js, node --check /tmp/app.js")


@pytest.mark.seed(99)
def test_a_failure_is_visible_with_verbose_off() -> None:
    blocks = BlockSpeaker(inbound(), "item")
    assert ran(blocks, used(text="SyntaxError: line 3", error=True)) == []
    blocks.feed(end("It is broken."))
    assert shown(blocks.close()) == [
        ("tool", "⚠️ 🛠️ Exec failed: check JS syntax for /tmp/app.js"),
        ("final", "It is broken."),
    ]


def test_what_worked_later_has_not_failed() -> None:
    blocks = BlockSpeaker(inbound(), "item")
    ran(blocks, [*used(error=True), *used("read", "c2", error=True), *used(ident="c3")])
    blocks.feed(end("Done."))
    assert shown(blocks.close()) == [("tool", "⚠️ 📖 Read failed: a.md"), ("final", "Done.")]


def test_a_chosen_silence_and_an_abort_hide_failures() -> None:
    for last, kind in (end("NO_REPLY"), 0), (end("x", kind="aborted"), 2):
        blocks = BlockSpeaker(inbound(), "item")
        ran(blocks, used(error=True))
        blocks.feed(last)
        assert len(blocks.close()) == kind
        assert not any(r.kind == "tool" for r in blocks.close())


@pytest.mark.seed(100)
@pytest.mark.parametrize("level", ["on", "full"])
def test_the_raw_error_shows_at_full_only(level: str) -> None:
    blocks = BlockSpeaker(inbound(), "item", lambda: RunVisibility(verbose=level))  # type: ignore[arg-type]
    _, failed = ran(blocks, used(text="SyntaxError: line 3", error=True))
    assert failed.text.startswith("⚠️ 🛠️ Exec failed: check JS syntax for /tmp/app.js")
    assert ("SyntaxError" in failed.text) == (level == "full")


@pytest.mark.seed(101)
def test_full_adds_the_output_cut_to_a_safe_length() -> None:
    blocks = BlockSpeaker(inbound(), "item", lambda: RunVisibility(verbose="full"))
    start, output = ran(blocks, used(text="x" * 100_000))
    assert (start.client_id, output.client_id) == ("item.t-c1", "item.o-c1")
    assert output.text.startswith("```txt\nxxx") and len(output.text) < 4000


@pytest.mark.seed(102)
def test_toggled_while_it_runs() -> None:
    level = RunVisibility()
    blocks = BlockSpeaker(inbound(), "item", lambda: level)
    assert ran(blocks, used(ident="c1")) == []
    level = RunVisibility(verbose="on")
    assert [r.client_id for r in ran(blocks, used(ident="c2"))] == ["item.t-c2"]
    level = RunVisibility(verbose="full")
    assert [r.client_id for r in ran(blocks, used(ident="c3"))] == ["item.t-c3", "item.o-c3"]
    level = RunVisibility()
    assert ran(blocks, used(ident="c4")) == []


def test_the_same_call_id_twice_is_two_bubbles() -> None:
    blocks = BlockSpeaker(inbound(), "item", lambda: RunVisibility(verbose="on"))
    assert [r.client_id for r in ran(blocks, used() + used())] == ["item.t-c1", "item.t-c1.2"]


# --- reasoning, tags, marks, trace


@pytest.mark.seed(115, 316)
@pytest.mark.parametrize(
    "message",
    [AssistantMessage((ThinkingBlock("why"), TextBlock("so"))), AssistantMessage((TextBlock("<think>why</think>so"),))],
)
def test_reasoning_on_is_a_message_before_the_answer(message: AssistantMessage) -> None:
    blocks = BlockSpeaker(inbound(), "item", lambda: RunVisibility(reasoning="on"))
    ran(blocks, [*heard(message), AgentEnd((message,), "stop", TokenUsage())])
    assert shown(blocks.close()) == [("reasoning", "Thinking\nwhy"), ("final", "so")]


@pytest.mark.parametrize("level", ["off", "stream"])
def test_reasoning_is_not_in_the_final_answer(level: str) -> None:
    blocks = BlockSpeaker(inbound(), "item", lambda: RunVisibility(reasoning=level))  # type: ignore[arg-type]
    blocks.feed(
        AgentEnd((AssistantMessage((ThinkingBlock("why"), TextBlock("<think>why</think>so"))),), "stop", TokenUsage())
    )
    assert shown(blocks.close()) == [("final", "so")]


def test_reasoning_goes_out_before_the_tool_it_led_to() -> None:
    blocks = BlockSpeaker(inbound(), "item", lambda: RunVisibility(verbose="on", reasoning="on"))
    kinds = [
        r.kind
        for r in ran(blocks, [*heard(AssistantMessage((ThinkingBlock("why"), TextBlock("Look."), CALL))), used()[0]])
    ]
    assert kinds == ["reasoning", "block", "tool"]


@pytest.mark.seed(119, 120, 121)
@pytest.mark.parametrize(
    ("text", "visible"),
    [
        ("<think>a</think>b", "b"),
        ("b <think>a", "b"),
        ("<think>a", "a"),
        ("<final>b</final>", "b"),
        ("`<think>`", "`<think>`"),
    ],
)
def test_tags(text: str, visible: str) -> None:
    blocks = BlockSpeaker(inbound(), "item")
    blocks.feed(end(text))
    assert shown(blocks.close()) == [("final", visible)]


def test_reasoning_alone_is_no_answer_and_says_so() -> None:
    blocks = BlockSpeaker(inbound(), "item")
    blocks.feed(end("<think>hm</think>"))
    (notice,) = blocks.close()
    assert notice.kind == "notice" and "said nothing" in notice.text


@pytest.mark.parametrize("tagged", [True, False])
def test_only_final_counts_once_it_is_used(tagged: bool) -> None:
    blocks = BlockSpeaker(inbound(), "item")
    blocks.feed(AgentStart("r", "s", "m", 0, tagged=tagged))
    blocks.feed(end("mumble <final>b</final>"))
    assert shown(blocks.close()) == [("final", "b")]


@pytest.mark.seed(311, 312, 313)
def test_marks_become_fields() -> None:
    blocks = BlockSpeaker(inbound("send me https://b.org/c", event="m7"), "item", files=allow_beneath(("/media",)))
    blocks.feed(end("[[reply_to_current]] [[audio_as_voice]]Look\nMEDIA: /media/a.png\n[[media:https://b.org/c]]"))
    (reply,) = blocks.close()
    assert (reply.text, reply.reply_to, reply.voice) == ("Look", "m7", True)
    assert reply.media == ("/media/a.png", "https://b.org/c")
    blocks = BlockSpeaker(inbound(event="m7"), "item")
    blocks.feed(end("[[reply_to:3]][[reply_to_current]]Look"))
    assert blocks.close()[0].reply_to == "3"


def test_media_is_sent_in_silence() -> None:
    blocks = BlockSpeaker(inbound("https://b.org/c please"), "item")
    blocks.feed(end("[[media:https://b.org/c]] NO_REPLY"))
    (reply,) = blocks.close()
    assert (reply.text, reply.media) == ("", ("https://b.org/c",))


@pytest.mark.parametrize(("source", "fetched"), [("web", True), ("command", False), ("", False)])
def test_an_address_that_the_model_made_up_is_not_fetched(source: str, fetched: bool) -> None:
    blocks = BlockSpeaker(inbound("look it up"), "item")
    result = ToolResult("c1", "any", (TextBlock("see https://b.org/c?secret"),), source=source)
    blocks.feed(ToolEnd("c1", "any", result, False, 1))
    blocks.feed(end("Look\nMEDIA: https://b.org/c?secret\nMEDIA: https://evil.org/?other"))
    (reply,) = blocks.close()
    assert reply.media == (("https://b.org/c?secret",) if fetched else ())
    assert "https://evil.org/?other" in reply.text


@pytest.mark.seed(111)
@pytest.mark.parametrize("on", [True, False])
def test_trace_shows_the_lines_of_plugins_and_nothing_else(on: bool) -> None:
    blocks = BlockSpeaker(inbound(), "item", lambda: RunVisibility(trace=on), trace=lambda: ["memory: 2 notes"])
    assert ran(blocks, used()) == []
    blocks.feed(end("Done."))
    trace = [("notice", "memory: 2 notes")] if on else []
    assert shown(blocks.close()) == [("final", "Done."), *trace]


# --- blocks

LONG = "First paragraph here.\n\nSecond paragraph here.\n\nThird."
SMALL = BlockSettings(10, 40)


@pytest.mark.seed(318)
def test_no_blocks_unless_asked_for() -> None:
    blocks = BlockSpeaker(inbound(), "item")
    message = AssistantMessage((TextBlock("word. " * 1000),))
    assert ran(blocks, heard(message, 7)) == []


@pytest.mark.seed(319)
def test_blocks_go_out_as_they_are_complete_and_the_final_holds_the_rest() -> None:
    blocks = BlockSpeaker(inbound(), "item", RunVisibility, SMALL)
    message = AssistantMessage((TextBlock(LONG),))
    *updates, complete = heard(message, 4)
    assert shown(ran(blocks, updates)) == [("block", "First paragraph here."), ("block", "Second paragraph here.")]
    assert ran(blocks, [complete, AgentEnd((message,), "stop", TokenUsage())]) == []
    assert shown(blocks.close()) == [("final", "Third.")]


@pytest.mark.seed(319)
def test_blocks_at_the_end_of_the_message() -> None:
    blocks = BlockSpeaker(inbound(), "item", RunVisibility, BlockSettings(10, 40, at="message_end"))
    *updates, complete = heard(AssistantMessage((TextBlock(LONG),)), 4)
    assert ran(blocks, updates) == []
    assert shown(blocks.feed(complete)) == [("block", "First paragraph here."), ("block", "Second paragraph here.")]


def test_a_run_that_is_resumed_says_the_same_things_under_the_same_ids() -> None:
    message = AssistantMessage((TextBlock(LONG),))
    last = AgentEnd((message,), "stop", TokenUsage())
    before = BlockSpeaker(inbound(), "item", RunVisibility, SMALL)
    out = [*ran(before, [*heard(message, 3), last]), *before.close()]
    ways: list[list[RunEvent]] = [[*heard(message, 11), last], [last]]
    for events in ways:  # asked again; found complete on disk
        again = BlockSpeaker(inbound(), "item", RunVisibility, SMALL)
        assert [*ran(again, events), *again.close()] == out
    other = BlockSpeaker(inbound(), "item", RunVisibility, SMALL)
    ids = {r.client_id for r in ran(other, heard(AssistantMessage((TextBlock(f"Other. {LONG}"),)), 3))}
    assert len(ids) == 2 and not {r.client_id for r in out[:1]} & ids  # another text is not taken for a repeat


def test_blocks_before_a_tool_and_reasoning_before_blocks() -> None:
    blocks = BlockSpeaker(inbound(), "item", lambda: RunVisibility(reasoning="on"), SMALL)
    message = AssistantMessage((ThinkingBlock("why"), TextBlock("First paragraph here.\n\nSecond."), CALL))
    start, *text = heard(message, 50)
    replies = ran(blocks, [start, MessageUpdate("why", "thinking"), *text])
    assert shown(replies) == [("reasoning", "Thinking\nwhy"), ("block", "First paragraph here."), ("block", "Second.")]


def test_silence_with_blocks() -> None:
    blocks = BlockSpeaker(inbound(), "item", RunVisibility, BlockSettings(1, 4))
    message = AssistantMessage((TextBlock("NO_REPLY"),))
    assert ran(blocks, [*heard(message, 1), AgentEnd((message,), "stop", TokenUsage())]) == []
    assert blocks.close() == ()


def test_a_client_that_reads_the_events_is_not_spoken_to_at_all() -> None:
    blocks = BlockSpeaker(
        inbound(push=False), "item", lambda: RunVisibility(verbose="full", reasoning="on", trace=True), SMALL
    )
    assert (
        ran(blocks, [*heard(AssistantMessage((ThinkingBlock("a"), TextBlock(LONG), CALL)), 4), *used(error=True)]) == []
    )
    assert blocks.close() == ()


def test_a_question_goes_out_at_once_and_after_what_was_said_before_it() -> None:
    blocks = BlockSpeaker(inbound(), "item")
    assert blocks.feed(MessageEnd(AssistantMessage((TextBlock("I will try."), ToolCall("c1", "exec", {}))))) == ()
    assert blocks.feed(ToolUpdate("c1", "exec", "progress")) == ()
    now = blocks.feed(ToolUpdate("c1", "exec", "May I?", "id1"))
    assert [(r.kind, r.text) for r in now] == [("block", "I will try."), ("notice", "May I?")]
    assert now[1].client_id == "item.a-id1"
    assert BlockSpeaker(inbound(push=False), "item").feed(ToolUpdate("c1", "exec", "May I?", "id1")) == ()


def letter(text: str, **changes: object) -> ToolResult:
    """A result of the message tool."""
    place = {"ok": True, "channel": "fake", "account": "default", "to": "chat", "text": text}
    return ToolResult("c", "message", (TextBlock("sent"),), False, {"sent": [{**place, **changes}]})


@pytest.mark.parametrize(
    ("result", "says", "left"),
    [
        (letter("All is done."), "all  is\ndone.", []),
        (letter("All is done."), "All is done, but one.", ["All is done, but one."]),
        (letter("All is done.", to="9"), "All is done.", ["All is done."]),
        (letter("All is done.", account="work"), "All is done.", ["All is done."]),
        (letter("All is done.", threadId="7"), "All is done.", ["All is done."]),
        (letter("All is done.", ok=False), "All is done.", ["All is done."]),
        (ToolResult("c", "message", (), False, {"sent": "odd"}), "All is done.", ["All is done."]),
        (ToolResult("c", "message", (), False, {"sent": ["odd", {}]}), "All is done.", ["All is done."]),
        (ToolResult("c", "other", (), False, letter("All is done.").details), "All is done.", ["All is done."]),
    ],
)
@pytest.mark.parametrize("again", [False, True])
def test_what_the_message_tool_said_here_is_not_repeated(
    result: ToolResult, says: str, left: list[str], again: bool
) -> None:
    blocks = BlockSpeaker(inbound(), "item")
    # After a crash the result comes from the transcript.
    blocks.feed(MessageEnd(result) if again else ToolEnd("c", "message", result, False, 0))
    blocks.feed(end(says))
    assert [r.text for r in blocks.close()] == left


def test_where_only_the_message_tool_is_seen_text_stays_but_troubles_are_told() -> None:
    for settings in (None, BlockSettings(5, 10)):
        blocks = BlockSpeaker(inbound(), "item", lambda: RunVisibility(answer=False), settings)
        for piece in ("Words that ", "nobody ", "reads."):
            assert blocks.feed(MessageUpdate(piece)) == ()
        blocks.feed(end("Words that nobody reads."))
        assert blocks.close() == ()
        blocks = BlockSpeaker(inbound(), "item", lambda: RunVisibility(answer=False), settings)
        blocks.feed(end("I was", kind="error", failure=ModelFailure("cut", "the stream ended")))
        assert [r.text for r in blocks.close()] == ["⚠️ No answer: the stream ended."]
