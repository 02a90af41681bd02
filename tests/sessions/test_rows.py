"""Session rows as lists show them."""

from __future__ import annotations

import msgspec
import pytest

from palinurus.core.levels.thinking import ThinkingRow
from palinurus.core.types.keys import SessionKey
from palinurus.sessions.record import SessionRecord
from palinurus.sessions.rows import make_session_row, name_chat_type, name_session_kind
from palinurus.testing.model import make_model_info

MAIN = SessionKey("main", "main")


@pytest.mark.parametrize(
    ("rest", "listed", "talk"),
    [
        ("main", "main", "direct"),
        ("direct:7", "other", "direct"),
        ("telegram:direct:7", "other", "direct"),
        ("telegram:group:1", "group", "group"),
        ("discord:channel:1:thread:2", "group", "channel"),
        ("cron:j", "cron", "direct"),
        ("hook:h", "hook", "direct"),
        ("subagent:s", "subagent", "direct"),
        ("acp:a", "acp", "direct"),
        ("notes", "other", "direct"),
    ],
)
def test_kinds(rest: str, listed: str, talk: str) -> None:
    key = SessionKey("main", rest)
    assert (name_session_kind(key), name_chat_type(key)) == (listed, talk)


def test_a_new_session_shows_what_its_model_would_be() -> None:
    model = make_model_info()
    levels = ThinkingRow(({"id": "off", "label": "off"},), ("off",), "off")
    shown = make_session_row(SessionRecord(sessionId="s"), MAIN, model, levels, "/h/s.jsonl")
    assert shown["key"] == "agent:main:main"
    assert shown["kind"] == "direct"
    assert shown["updatedAt"] is None
    assert (shown["modelProvider"], shown["model"]) == (model.ref.provider, model.ref.model)
    assert shown["contextTokens"] == model.context_window
    assert shown["thinkingLevels"] == [{"id": "off", "label": "off"}]
    assert (shown["thinkingOptions"], shown["thinkingDefault"]) == (["off"], "off")
    assert shown["totalTokensFresh"] is False
    assert "thinkingLevel" not in shown
    assert shown["transcriptPath"] == "/h/s.jsonl"


def test_what_the_row_says_goes_before_the_model() -> None:
    record = SessionRecord(
        sessionId="s",
        updatedAt=5,
        label="work",
        thinkingLevel="high",
        fastMode=False,
        modelProvider="p",
        model="m",
        contextTokens=9,
        totalTokens=3,
        modelOverride="m",
        lastChannel="telegram",
        lastTo="42",
        lastThreadId=7,
        extra={"secret": "x"},
    )
    shown = make_session_row(record, SessionKey("main", "telegram:group:-1"), make_model_info())
    assert (shown["kind"], shown["model"], shown["contextTokens"], shown["fastMode"]) == ("group", "m", 9, False)
    assert shown["deliveryContext"] == {"channel": "telegram", "to": "42", "threadId": 7}
    assert (shown["totalTokens"], shown["totalTokensFresh"], shown["modelOverride"]) == (3, True, "m")
    assert "secret" not in msgspec.json.encode(shown).decode()
    assert make_session_row(SessionRecord(sessionId="s"), SessionKey("main", "global"))["kind"] == "global"
