import json

import pytest

from palinurus.testing.home import HomeSnapshot, check_snapshot, find_unpaired_calls


def item(ident="i1", **rest):
    row = {"id": ident, "dedupe": f"d/{ident}", "session": "s", "body": b'{"push": true}', "state": "done"}
    return {**row, "outcome": "answered", "note": "", "absorbed_by": "", **rest}


def reply(ident="i1.0", **rest):
    return {"id": ident, "item": "i1", "channel": "spool", "state": "sent", "error": "", **rest}


def user(text="q"):
    return {"role": "user", "content": text}


def assistant(*blocks, stop="stop"):
    content = [b if isinstance(b, dict) else {"type": "text", "text": b} for b in blocks]
    return {"role": "assistant", "content": content, "stopReason": stop}


CALL = {"type": "toolCall", "id": "c1", "name": "ls", "arguments": {}}
RESULT = {"role": "toolResult", "toolCallId": "c1", "toolName": "ls", "content": []}


def lines(*messages, item="i1"):
    out = [json.dumps({"type": "session", "version": 3, "id": "s"}).encode()]
    parent = None
    for n, message in enumerate(messages):
        entry = {"type": "message", "id": f"e{n}", "parentId": parent, "item": item, "message": message}
        out.append(json.dumps(entry).encode())
        parent = f"e{n}"
    return (*out, b"")


GOOD = lines(user(), assistant(CALL, stop="toolUse"), RESULT, assistant("a"))


def story(inbox=None, outbox=None, transcript=GOOD, shown=None):
    seen = [{"client_id": "i1.0"}] if shown is None else shown
    boxes = tuple(inbox or [item()]), tuple([reply()] if outbox is None else outbox)
    return HomeSnapshot(*boxes, {"agents/main/sessions/s.jsonl": tuple(transcript)}, tuple(seen))


def test_a_good_story_has_nothing_wrong():
    assert check_snapshot(story()) == []
    absorbed = item("i2", state="absorbed", outcome=None, absorbed_by="i1")
    assert check_snapshot(story([item(), absorbed], transcript=lines(user(), user("two"), assistant("both")))) == []
    told = item("i2", dedupe="x/exec:1", state="absorbed", absorbed_by="i1", body=b'{"push": false}')
    assert check_snapshot(story([item(), told], transcript=lines(user(), user("two"), assistant("both")))) == []
    page = b'{"push": false, "target": {"channel": "webchat", "to": "s"}}'
    shown = [item(body=page), item("i2", state="absorbed", absorbed_by="i1", body=page)]
    both = lines(user(), user("two"), assistant("both"))
    assert check_snapshot(story(shown, outbox=[], shown=[], transcript=both)) == []
    failed = item(outcome="failed", note="no key")
    assert check_snapshot(story([failed], transcript=lines(user()))) == []
    quiet = item(body=b'{"push": false}')
    assert check_snapshot(story([quiet], outbox=[], shown=[])) == []


@pytest.mark.parametrize(
    ("wrong", "bad"),
    [
        ("still running", story([item(state="running", outcome=None)])),
        ("still queued", story([item(), item("i2", state="queued", outcome=None)])),
        ("without an outcome", story([item(outcome=None)])),
        ("without a reason", story([item(outcome="failed")])),
        ("did not end", story([item(), item("i2", state="absorbed", absorbed_by="i3")])),
        (
            "answer goes elsewhere",
            story([item(), item("i2", state="absorbed", absorbed_by="i1", body=b'{"target": {"to": "x"}}')]),
        ),
        (
            "answer goes elsewhere",
            story([item(), item("i2", dedupe="x/exec:1", state="absorbed", absorbed_by="i1", body=b'{"target": "x"}')]),
        ),
        (
            "answer goes elsewhere",
            story([item(), item("i2", state="absorbed", absorbed_by="i1", body=b'{"push": false}')]),
        ),
        ("accepted 2 times", story([item(), item("i2", dedupe="d/i1", body=b'{"push": false}')])),
        ("nobody was told", story(outbox=[], shown=[])),
        ("still sending", story(outbox=[reply(state="sending")])),
        ("failed without a reason", story(outbox=[reply(state="failed")], shown=[])),
        ("delivered 2 times", story(shown=[{"client_id": "i1.0"}] * 2)),
        ("nobody saw it", story(shown=[])),
        ("in no outbox", story(shown=[{"client_id": "i1.0"}, {"client_id": "x"}])),
        ("not JSON", story(transcript=[*GOOD[:-1], b'{"type', b""])),
        ("has no end", story(transcript=GOOD[:-1])),
        ("is there twice", story(transcript=[*GOOD[:-1], GOOD[-2], b""])),
        ("is missing", story(transcript=[GOOD[0], *GOOD[2:]])),
        ("header", story(transcript=GOOD[1:])),
        ("question is 2 times", story(transcript=lines(user(), user(), assistant("a")))),
        ("answer is 2 times", story(transcript=lines(user(), assistant("a"), assistant("a")))),
        ("answer is 0 times", story(transcript=lines(user()))),
        ("something follows", story(transcript=lines(user(), assistant("a"), RESULT))),
        ("has no result", story(transcript=lines(user(), assistant(CALL, stop="toolUse"), assistant("a")))),
    ],
)
def test_each_fault_is_found(wrong, bad):
    assert any(wrong in text for text in check_snapshot(bad)), check_snapshot(bad)


def test_pairing():
    assert find_unpaired_calls([user(), assistant(CALL), RESULT, assistant("a")]) == []
    assert find_unpaired_calls([assistant(CALL, stop="aborted"), user()]) == []
    assert find_unpaired_calls([RESULT]) == ["result c1 answers no call"]
    assert find_unpaired_calls([assistant(CALL), RESULT, RESULT]) == ["result c1 answers no call"]
