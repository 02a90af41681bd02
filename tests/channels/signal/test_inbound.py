from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from palinurus.channels.intake import RemoteFile
from palinurus.channels.signal.inbound import SignalIdentity, parse_event
from palinurus.core.types.inbound import MessageQuote

ME = SignalIdentity("+1000", "me-uuid")
ANN = {"sourceUuid": "ann-uuid", "sourceNumber": "+2000", "sourceName": "Ann", "timestamp": 7}


def event(data: dict[str, Any] | None = None, **envelope: Any) -> dict[str, Any]:
    return {"account": "+1000", "envelope": {**ANN, "dataMessage": {"timestamp": 7, **(data or {})}, **envelope}}


def test_a_message_and_who_wrote_it() -> None:
    found = parse_event(event({"message": "hi"}), ME, "default")
    assert found is not None and found.inbound.event == "ann-uuid:7"
    assert (found.inbound.sender.id, found.inbound.sender.also) == ("ann-uuid", ("+2000",))
    assert (found.inbound.target.to, found.inbound.kind, found.inbound.at) == ("ann-uuid", "direct", 7)
    hidden = parse_event(event({"message": "hi"}, sourceNumber=None), ME, "default")
    assert hidden is not None and hidden.inbound.sender.also == ()
    wrapped = parse_event({"subscription": 0, "result": event({"message": "hi"})}, ME, "default")
    assert wrapped == found


def test_mentions_are_names_and_ours_is_cut_out() -> None:
    us = {"uuid": "me-uuid", "start": 0, "length": 1}
    bob = {"uuid": "bob", "name": "Bob", "start": 9, "length": 1}
    found = parse_event(event({"message": "\ufffc 🜂 ask \ufffc!", "mentions": [us, bob]}), ME, "default")
    assert found is not None and found.inbound.mentioned and found.inbound.text == "🜂 ask @Bob!"


def test_quotes_groups_and_files() -> None:
    data = {
        "message": "", "groupInfo": {"groupId": "gid=", "groupName": "Den", "type": "DELIVER"},
        "quote": {"id": 5, "authorUuid": "me-uuid", "text": "as I said"},
        "attachments": [{"id": "a1", "contentType": "audio/aac", "filename": None, "size": 3}, {"id": None}],
    }  # fmt: skip
    found = parse_event(event(data), ME, "work")
    assert found is not None and found.files == (RemoteFile("signal-7", "audio/aac", "a1", 3, True),)
    inbound = found.inbound
    assert (inbound.target.to, inbound.target.account, inbound.kind, inbound.title) == ("gid=", "work", "group", "Den")
    assert inbound.mentioned and inbound.quote == MessageQuote("5", "", "as I said")


def test_what_is_nobody_speaking_to_us() -> None:
    for one in (
        event({"message": "x", "reaction": {"emoji": "x"}}), event({"message": "x", "remoteDelete": {"timestamp": 1}}),
        event({"message": None}), event({"message": "x", "isExpirationUpdate": True}), {"envelope": {**ANN}},
        event({"message": "x"}, sourceUuid="me-uuid"), event({"message": "x"}, sourceNumber="+1000", sourceUuid=None),
        {"envelope": {**ANN, "editMessage": {"dataMessage": {"message": "x"}}}}, {"exception": {"message": "x"}}, {},
        {"envelope": {**ANN, "syncMessage": {"sentMessage": {"message": "x"}}}},
        {**event({"message": "x"}), "account": "+9"},
        event({"groupInfo": {"groupId": "g", "type": "UPDATE"}, "message": None}),
        event({"message": "x"}, sourceUuid=None, sourceNumber=None),
    ):  # fmt: skip
        assert parse_event(one, ME, "default") is None, one


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(
        ["message", "mentions", "start", "length", "quote", "id", "attachments", "groupInfo", "groupId", "timestamp",
         "uuid", "contentType", "size", "text"]), inner, max_size=6),
    max_leaves=20,
)  # fmt: skip


@given(JSON)
def test_nothing_a_daemon_says_breaks_the_reader(data: Any) -> None:
    parse_event(event(data if isinstance(data, dict) else {"message": "x", "mentions": data}), ME, "default")
    parse_event({"envelope": data}, ME, "default")
