"""The session row: typed, nothing lost on rewrite, ids that are safe file names."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.core.types.keys import SessionKey
from palinurus.errors import BadRequest, StateBroken
from palinurus.sessions.record import SessionRecord

KEY = SessionKey("main", "main")
EXAMPLE = {
    "sessionId": "6f0c",
    "updatedAt": 1781000000000,
    "sessionStartedAt": 1780990000000,
    "lastInteractionAt": 1780999990000,
    "chatType": "direct",
    "thinkingLevel": "high",
    "fastMode": "auto",
    "compactionCount": 1,
    "inputTokens": 1200,
    "outputTokens": 340,
    "totalTokens": 18750,
    "totalTokensFresh": True,
    "contextTokens": 200000,
    "modelProvider": "anthropic",
    "model": "claude-opus-4-8",
    "systemSent": True,
}


def test_round_trip_of_the_example() -> None:
    record = SessionRecord.decode(json.dumps(EXAMPLE).encode())
    assert (record.fastMode, record.thinkingLevel, record.totalTokens) == ("auto", "high", 18750)
    assert json.loads(record.encode()) == EXAMPLE


def test_unknown_fields_survive_a_change() -> None:
    raw = {**EXAMPLE, "skillsSnapshot": {"prompt": "x"}, "brandNew": [1, {"a": None}]}
    record = msgspec.structs.replace(SessionRecord.decode(json.dumps(raw).encode()), label="mine")
    assert json.loads(record.encode()) == {**raw, "label": "mine"}


def test_a_known_field_with_a_strange_value_is_kept_until_it_is_set() -> None:
    record = SessionRecord.decode(b'{"sessionId":"a","inputTokens":"many","status":"sleeping","fastMode":"maybe"}')
    assert (record.inputTokens, record.status, record.fastMode) == (None, None, None)
    assert json.loads(record.encode())["inputTokens"] == "many"
    changed = msgspec.structs.replace(record, inputTokens=5)
    assert json.loads(changed.encode())["inputTokens"] == 5
    assert json.loads(changed.encode())["status"] == "sleeping"


def test_a_stored_field_called_extra_is_not_mixed_up() -> None:
    raw = {"sessionId": "a", "updatedAt": 1, "extra": {"b": 1}}
    assert json.loads(SessionRecord.decode(json.dumps(raw).encode()).encode()) == raw


NAMES = st.sampled_from(
    ["updatedAt", "label", "fastMode", "status", "inputTokens", "extra", "usageFamilySessionIds", "x"]
)
PLAIN = (
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.text(max_size=6)
    | st.lists(st.text(max_size=3), max_size=2)
)


@given(st.dictionaries(NAMES, PLAIN, max_size=6))
def test_any_object_round_trips(raw: dict[str, object]) -> None:
    full = {**raw, "sessionId": "a"}
    record = SessionRecord.decode(msgspec.json.encode(full))
    again = SessionRecord.decode(record.encode())
    assert again == record
    kept = json.loads(record.encode())
    assert all(kept[name] == value for name, value in full.items() if name in kept)
    assert all(value is None or (name, value) == ("updatedAt", 0) for name, value in full.items() if name not in kept)


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b"{}", b'{"sessionId":7}', b'{"sessionId":"../x"}', b"[" * 9999])
def test_unusable_rows_say_so(data: bytes) -> None:
    with pytest.raises(StateBroken, match="session record"):
        SessionRecord.decode(data)


@pytest.mark.seed(374)
def test_the_transcript_is_where_it_belongs() -> None:
    record = SessionRecord.fresh(KEY, 5, "0b2e7c9a-1111-4222-8333-444455556666")
    assert record.path("main") == "agents/main/sessions/0b2e7c9a-1111-4222-8333-444455556666.jsonl"


@pytest.mark.seed(375)
def test_the_id_is_the_runtimes_and_stays() -> None:
    record = SessionRecord.fresh(KEY, 5, "one")
    assert (record.sessionId, record.sessionStartedAt, record.lastInteractionAt) == ("one", 5, 5)
    later = msgspec.structs.replace(SessionRecord.decode(record.encode()), updatedAt=99, channel="telegram")
    assert SessionRecord.decode(later.encode()).sessionId == "one"
    assert later.path("main") == record.path("main")


@pytest.mark.seed(376)
@pytest.mark.parametrize(
    ("stored", "name"),
    [
        ("/home/u/.othertool/sessions/x.jsonl", "x.jsonl"),
        ("../../etc/x.jsonl", "x.jsonl"),
        ("a-topic-5.jsonl", "a-topic-5.jsonl"),
        ("C:\\old\\y.jsonl", "y.jsonl"),
        ("/etc/passwd", "s.jsonl"),
        ("..", "s.jsonl"),
        (".jsonl", "s.jsonl"),
        ("", "s.jsonl"),
    ],
)
def test_folders_named_in_a_row_are_never_used(stored: str, name: str) -> None:
    record = SessionRecord(sessionId="s", sessionFile=stored)
    assert record.path("main") == f"agents/main/sessions/{name}"


@pytest.mark.parametrize(
    "ident", ["", ".", "..", "../a", "a/b", "a\\b", "a\0", ".hidden", "a b", "é", "x" * 201, "a\n"]
)
def test_ids_that_are_no_file_names_are_refused(ident: str) -> None:
    with pytest.raises(BadRequest, match="cannot be a session id"):
        SessionRecord.fresh(KEY, 5, ident)


def test_row() -> None:
    row = SessionRecord.fresh(SessionKey("ops", "main"), 5, "one").row(SessionKey("ops", "main"))
    assert (row.key, row.agent, row.session_id, row.updated) == ("agent:ops:main", "ops", "one", 5)
    assert SessionRecord.decode(row.data).sessionId == "one"
