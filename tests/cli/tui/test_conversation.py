from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from palinurus.cli.tui.conversation import ConversationBlock, ScreenConversation, extract_words, summarize_arguments


def agent(stream: str, run: str = "r", ts: int = 0, **data: Any) -> tuple[str, dict[str, Any]]:
    return "agent", {"runId": run, "stream": stream, "data": data, "ts": ts}


def chat(state: str, text: str = "", run: str = "r", **more: Any) -> tuple[str, dict[str, Any]]:
    message = {"content": [{"type": "text", "text": text}]}
    return "chat", {"runId": run, "state": state, "message": {**message, **more.pop("message", {})}, **more}


def line(ident: str, role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, "__openclaw": {"id": ident}, **more}


def shown(talk: ScreenConversation, *events: tuple[str, dict[str, Any]]) -> list[ConversationBlock]:
    """What stands on the screen after these events."""
    found: dict[str, ConversationBlock] = {}
    for event, payload in events:
        for block in talk.feed(event, payload):
            found[block.id] = block
    return list(found.values())


def test_words_grow_in_one_block_and_begin_anew_after_a_tool() -> None:
    blocks = shown(
        ScreenConversation(),
        agent("lifecycle", phase="start"),
        agent("assistant", text="Let"),
        agent("assistant", text="Let me"),
        agent("tool", ts=1000, phase="start", name="ls", toolCallId="1", args={"path": ".", "all": True, "no": False}),
        agent("tool", ts=1500, phase="update", toolCallId="1", partialResult={"content": [{"text": "a"}]}),
        agent("tool", ts=2200, phase="result", toolCallId="1", isError=False, result={"content": [{"text": "a b"}]}),
        agent("tool", ts=9000, phase="result", toolCallId="1", isError=False, result={"content": [{"text": "a b"}]}),
        agent("assistant", text="Let me see"),
        chat("final", "Let me Let me see"),
    )
    assert [(b.kind, b.text, b.head, b.state, b.took) for b in blocks] == [
        ("words", "Let me", "", "", 0),
        ("tool", "a b", "ls . all", "done", 1200),
        ("words", "Let me see", "", "", 0),
    ]


def test_why_nothing_comes_is_said_until_something_comes() -> None:
    talk = ScreenConversation()
    wait = agent("status", text="loading a (1.1 GB) … 0 s"), agent("status", text="reading 400 tokens … 50 % (3 s)")
    (note,) = shown(talk, agent("lifecycle", phase="start"), *wait)
    assert (note.kind, note.text) == ("note", "reading 400 tokens … 50 % (3 s)")
    blocks = shown(talk, agent("assistant", text="Hi"), agent("status", text="again"), chat("error", "no"))
    assert [b.text for b in blocks if b.id == note.id] == [""] and all(b.text != "again" for b in blocks)
    assert len([b for b in blocks if b.kind == "note" and not b.text]) == 2


def test_what_comes_between_does_not_split_what_is_being_said() -> None:
    talk = ScreenConversation()
    first = shown(talk, agent("lifecycle", phase="start"), agent("assistant", text="Hel"))
    talk.send("s", "wait", 0)
    talk.note("by the way")
    heard = ("session.message", {"message": line("u9", "user", "from elsewhere")})
    answer = chat("final", "set", run="c", message={"command": True})
    rest = shown(talk, heard, answer, agent("assistant", text="Hello"))
    assert [b for b in rest if b.kind == "words"] == [ConversationBlock(first[0].id, "words", "Hello")]


def test_a_replacement_takes_the_place_of_what_was_shown() -> None:
    talk = ScreenConversation()
    blocks = shown(talk, agent("assistant", text="<thi"), agent("assistant", text="Hello", replace=True))
    assert [b.text for b in blocks] == ["Hello"]


def test_a_run_that_was_not_streamed_shows_its_whole_at_the_end() -> None:
    assert [b.text for b in shown(ScreenConversation(), agent("lifecycle", phase="start"), chat("final", "all"))] == [
        "all"
    ]


def test_our_message_is_shown_once_whatever_comes_first() -> None:
    heard = ("session.message", {"message": line("u1", "user", "hello")})
    for events in ([heard, agent("lifecycle", phase="start")], [agent("lifecycle", phase="start"), heard]):
        talk = ScreenConversation()
        sent = talk.send("r", "hello", 0)
        blocks = shown(talk, *events)
        assert {b.id for b in blocks} == {sent.id} and blocks[-1].state == "done"
        assert talk.mark("r", "waiting") == []
    other = shown(ScreenConversation(), ("session.message", {"message": line("u2", "user", "from elsewhere")}))
    assert [(b.kind, b.text) for b in other] == [("user", "from elsewhere")]


def test_what_is_on_its_way_outlives_a_new_look_at_the_disk() -> None:
    talk = ScreenConversation()
    talk.send("r", "hello", 10_000)
    old = line("u0", "user", "hello", timestamp=1)
    assert [b.id for b in talk.reset({"messages": [old]})] == ["u0", "sent:r"]
    new = line("u1", "user", "hello", timestamp=10_001)
    assert [b.id for b in talk.reset({"messages": [old, new]})] == ["u0", "u1"]


def test_history_is_shown_as_it_was_said() -> None:
    call = {"id": "1", "name": "read", "arguments": {"path": "a"}}
    messages = [
        line("a", "user", "look"),
        line("b", "assistant", [{"type": "thinking", "thinking": "hm"}], toolCalls=[call], timestamp=1000),
        line("c", "toolResult", [{"text": "no"}], toolCallId="1", toolName="read", isError=True, timestamp=1500),
        line("d", "assistant", [{"type": "text", "text": "It is gone."}]),
        line("e", "assistant", [], stopReason="error", errorMessage="broke"),
        line("f", "system", [{"text": "summary"}]),
    ]
    talk = ScreenConversation()
    shown = {"sessionInfo": {"reasoningLevel": "on"}}
    blocks = talk.reset({"messages": messages, "inFlightRun": {"runId": "x"}, **shown})
    assert [(b.kind, b.text, b.state) for b in blocks] == [
        ("user", "look", ""),
        ("thought", "hm", ""),
        ("tool", "no", "failed"),
        ("words", "It is gone.", ""),
        ("error", "broke\n/retry asks again, /why tells more", ""),
        ("note", "Earlier messages were summarised.", ""),
    ]
    assert (talk.run, talk.stale) == ("x", True)
    assert not [b for b in talk.reset({"messages": messages}) if b.kind == "thought"]


def test_commands_notices_failures_and_stops_are_lines_of_ours() -> None:
    talk = ScreenConversation()
    talk.send("r", "/think high", 0)
    blocks = shown(talk, chat("final", "set", message={"command": True}))
    assert [(b.kind, b.text, b.state) for b in blocks] == [("user", "/think high", "done"), ("note", "set", "")]
    blocks = shown(talk, chat("final", "", run="2", notices=["mind"]), chat("error", run="3", errorMessage="bad"))
    assert [(b.kind, b.text) for b in blocks] == [
        ("note", "mind"),
        ("error", "bad\n/retry asks again, /why tells more"),
    ]
    assert [b.text for b in shown(talk, agent("lifecycle", run="4", phase="start"), chat("aborted", run="4"))] == [
        "stopped"
    ]


def test_what_was_taken_back_before_it_began_is_no_stopped_run() -> None:
    talk = ScreenConversation()
    talk.send("r", "yes", 0)
    talk.mark("r", "waiting")
    assert [(b.kind, b.state) for b in shown(talk, chat("aborted"))] == [("user", "failed")]
    assert shown(talk, chat("aborted", run="of somebody else")) == []
    heard = shown(talk, ("session.message", {"message": line("u1", "user", "yes, please")}))
    assert [(b.id, b.text) for b in heard] == [("u1", "yes, please")]


def test_a_line_is_the_message_whose_run_it_names() -> None:
    talk = ScreenConversation()
    short, long = talk.send("a", "yes", 0), talk.send("b", "yes, please", 0)
    named = {"role": "user", "content": "yes, please", "__openclaw": {"id": "u1", "runId": "b"}}
    assert [b.id for b in shown(talk, ("session.message", {"message": named}))] == [long.id]
    assert [b.id for b in talk.reset({"messages": [named]})] == ["u1", short.id]


@given(st.text(), st.recursive(st.none() | st.booleans() | st.text(), st.lists, max_leaves=5))
def test_nothing_that_is_shown_can_act_on_a_terminal(text: str, other: Any) -> None:
    bad = {chr(c) for c in (*range(9), *range(11, 32), *range(0x7F, 0xA0), 0x202E, 0x2066)}
    blocks = shown(
        ScreenConversation(),
        agent("assistant", text=text),
        agent("thinking", delta=text),
        agent("tool", phase="start", name=text, toolCallId="1", args={"a": text, "b": other}),
        agent("tool", phase="result", name=text, toolCallId="1", result={"content": [{"text": text}]}),
        chat("error", text, errorMessage=text, notices=[text]),
        ("session.message", {"message": line("u", "user", text)}),
    )
    assert not any(bad & set(b.text + b.head) for b in blocks)
    assert len(summarize_arguments({"a": text * 50})) <= 200 and not bad & set(extract_words([{"text": text}]))
