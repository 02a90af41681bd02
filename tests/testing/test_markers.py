import pytest

from palinurus.testing.markers import answer_markers, parse_conversation


def user(text):
    return {"role": "user", "content": text}


CALL = {"role": "assistant", "content": None, "tool_calls": [{"id": "a", "function": {"name": "ls"}}]}
RESULT = {"role": "tool", "tool_call_id": "a", "content": "file.txt"}
CALL2 = {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "ls", "input": {}}]}
RESULT2 = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "file.txt"}]}


@pytest.mark.parametrize(("call", "result"), [(CALL, RESULT), (CALL2, RESULT2)])
def test_the_round_follows_from_the_conversation(call, result):
    text = 'TOOL ls {"path": "."}\nTOOL exec {"command": "true"}\nSAY found $RESULT'
    messages = [user("before"), CALL, RESULT, user(text)]
    turns = []
    for _ in range(3):
        turns.append(answer_markers(parse_conversation({"messages": messages})).turn)
        messages = [*messages, call, result]
    assert [t.calls for t in turns] == [(("ls", {"path": "."}),), (("exec", {"command": "true"}),), ()]
    assert turns[2].text == "found file.txt"


def test_plain_words():
    def said(text):
        return answer_markers(parse_conversation({"messages": [user(text)]}))

    assert said("hello").turn.text == "echo: hello"
    assert said("[Mon 10:00] SAY hi there").turn.text == "hi there"
    assert said("SAY a\nSAY b").turn.text == "a\nb"
    assert said("THINK deep\nSAY x").turn.thinking == "deep"
    assert said("WORDS 3\nSLOW 20").turn.text == "w0 w1 w2" and said("WORDS 3\nSLOW 20").delay == 0.02
    assert said('TOOLS [["ls", {}], ["read", {"path": "a"}]]').turn.calls == (("ls", {}), ("read", {"path": "a"}))
    assert said("CUT 10\nSAY x").cut == 10 and said("STALL 0\nSAY x").stall == 0
    assert said("FAIL rate_limit").turn.failure.kind == "rate_limit"


def test_a_failure_may_be_over_after_some_rounds():
    messages = [user("FAIL overloaded 1\nSAY ok"), CALL, RESULT]
    assert answer_markers(parse_conversation({"messages": messages[:1]})).turn.failure is not None
    assert answer_markers(parse_conversation({"messages": messages})).turn.text == "ok"


def test_call_ids_differ_along_a_conversation_and_repeat_for_the_same_request():
    body = {"messages": [user("TOOL ls {}")]}
    later = {"messages": [user("TOOL ls {}"), CALL, RESULT]}
    assert parse_conversation(body).call_id(0) == parse_conversation(dict(body)).call_id(0)
    assert (
        len(
            {
                parse_conversation(body).call_id(0),
                parse_conversation(body).call_id(1),
                parse_conversation(later).call_id(0),
            }
        )
        == 3
    )


def test_a_steered_message_beside_results_is_the_newest():
    steered = {"role": "user", "content": [*RESULT2["content"], {"type": "text", "text": "SAY other"}]}
    assert answer_markers(parse_conversation({"messages": [user("TOOL ls {}"), CALL2, steered]})).turn.text == "other"
