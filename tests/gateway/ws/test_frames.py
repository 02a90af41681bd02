"""Frames as bytes: what is a request, what is answered, what is ignored; hostile bytes never raise."""

from __future__ import annotations

import json
from typing import Annotated, Literal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palinurus.gateway import rpc
from palinurus.gateway.rpc import MethodError, MethodParams
from palinurus.gateway.ws import frames


class Inner(MethodParams, frozen=True):
    size: int = 0


class Sample(MethodParams, frozen=True):
    session_key: str
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 5
    name: Annotated[str, msgspec.Meta(min_length=1)] = "x"
    view: Literal["a", "b"] = "a"
    flag: bool | None = None
    inner: Inner = Inner()
    items: tuple[int, ...] = ()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("{}", "must have required property 'sessionKey'"),
        ('{"sessionKey":"k","foo":1}', "at root: unexpected property 'foo'"),
        ('{"sessionKey":"k","limit":"x"}', "at /limit: must be integer"),
        ('{"sessionKey":"k","limit":1.5}', "at /limit: must be integer"),
        ('{"sessionKey":"k","limit":0}', "at /limit: must be >= 1"),
        ('{"sessionKey":"k","limit":1001}', "at /limit: must be <= 1000"),
        ('{"sessionKey":1}', "at /sessionKey: must be string"),
        ('{"sessionKey":"k","name":""}', "at /name: must NOT have fewer than 1 characters"),
        ('{"sessionKey":"k","view":"z"}', "at /view: must be equal to one of the allowed values"),
        ('{"sessionKey":"k","flag":1}', "at /flag: must be boolean,null"),
        ('{"sessionKey":"k","inner":{"x":1}}', "at /inner: unexpected property 'x'"),
        ('{"sessionKey":"k","inner":{"size":"1"}}', "at /inner/size: must be integer"),
        ('{"sessionKey":"k","items":[1,"b"]}', "at /items/1: must be integer"),
        ("[]", "must be object"),
        ('"x"', "must be object"),
    ],
)
def test_params_are_refused_in_the_words_clients_know(given: str, said: str) -> None:
    with pytest.raises(MethodError) as found:
        rpc.decode_params("some.method", Sample, msgspec.Raw(given.encode()))
    assert (found.value.code, found.value.message) == ("INVALID_REQUEST", f"invalid some.method params: {said}")


def test_params_may_be_missing_or_null() -> None:
    frame = frames.decode_request(b'{"type":"req","id":"1","method":"m"}')
    assert isinstance(frame, frames.RequestFrame)
    assert rpc.decode_params("m", Inner, frame.params) == Inner()
    assert rpc.decode_params("m", Inner, msgspec.Raw(b"null")) == Inner()


@pytest.mark.parametrize(
    ("frame", "ident", "said"),
    [
        ('{"type":"req","method":"health"}', "invalid", "must have required property 'id'"),
        ('{"type":"bogus","id":"7","method":"x"}', "7", "at /type: must be equal to constant"),
        ('{"id":"7","method":"x"}', "7", "must have required property 'type'"),
        ('{"type":"req","id":"","method":"x"}', "invalid", "at /id: must NOT have fewer than 1 characters"),
        ('{"type":"req","id":7,"method":"x"}', "invalid", "at /id: must be string"),
        ('{"type":"req","id":"7","method":""}', "7", "at /method: must NOT have fewer than 1 characters"),
        ("[]", "invalid", "must be object"),
        ("3", "invalid", "must be object"),
    ],
)
def test_json_that_is_no_request_is_answered(frame: str, ident: str, said: str) -> None:
    assert frames.decode_request(frame) == frames.BadFrame(ident, f"invalid request frame: {said}")


@pytest.mark.parametrize(
    "data", [b"", b"garbage", b"{", b"\xff\xfe", b'{"type":"req"', b"[" * 100_000, b'{"a":' * 50_000]
)
def test_what_is_not_json_is_ignored(data: bytes) -> None:
    assert frames.decode_request(data) is None


WORDS = st.sampled_from(
    ['"', "{", "}", "[", "]", ":", ",", "type", "req", "id", "method", "params", "null", "\\u", "1e9"]
)


@given(st.one_of(st.binary(max_size=200), st.lists(WORDS, max_size=40).map(lambda parts: "".join(parts).encode())))
@settings(max_examples=300, deadline=None)
def test_no_bytes_raise(data: bytes) -> None:
    assert frames.decode_request(data) is None or isinstance(
        frames.decode_request(data), frames.RequestFrame | frames.BadFrame
    )


@given(st.recursive(st.none() | st.booleans() | st.text(), lambda c: st.lists(c) | st.dictionaries(st.text(), c)))
@settings(deadline=None)
def test_every_answer_is_json(payload: object) -> None:
    frame = json.loads(frames.encode_answer("i", payload))
    assert (frame["type"], frame["id"], frame["ok"]) == ("res", "i", True)


def test_half_a_surrogate_pair_does_not_break_an_answer() -> None:
    frame = json.loads(frames.encode_answer("i", {"text": "a\ud800b", "list": ["\udfff"]}))
    assert frame["payload"] == {"text": "a?b", "list": ["?"]}


def test_a_refusal_always_has_code_and_message() -> None:
    frame = json.loads(frames.encode_refusal("i", MethodError("", code="", retryable=True, retry_after_ms=-5)))
    assert frame["error"] == {"code": "UNAVAILABLE", "message": "failed", "retryable": True, "retryAfterMs": 0}


def test_an_event_is_put_together_from_pieces() -> None:
    made = frames.encode_event_head("chat") + b'{"a":1}' + frames.encode_event_tail(3, b'{"presence":1,"health":2}', 9)
    assert json.loads(made) == {
        "type": "event",
        "event": "chat",
        "payload": {"a": 1},
        "seq": 3,
        "stateVersion": {"presence": 1, "health": 2},
        "pos": 9,
    }
    assert json.loads(frames.encode_event_head("x") + b"{}" + frames.encode_event_tail()) == {
        "type": "event",
        "event": "x",
        "payload": {},
    }


def test_a_close_reason_fits() -> None:
    assert len(frames.encode_close_reason("ä" * 200)) <= 123
    assert frames.encode_close_reason("ä" * 200).decode() == "ä" * 60
