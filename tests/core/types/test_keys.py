"""Session keys and model refs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.core.types.keys import (
    ModelRef,
    SessionKey,
    escape_key_part,
    parse_agent_id,
    parse_model_ref,
    parse_session_key,
)


@pytest.mark.parametrize(
    ("text", "agent", "rest", "kind", "depth", "lane"),
    [
        ("agent:main:main", "main", "main", "main", 0, "main"),
        ("main", "main", "main", "main", 0, "main"),
        ("Agent:Work:telegram:direct:42", "work", "telegram:direct:42", "direct", 0, "main"),
        ("agent:main:direct:42", "main", "direct:42", "direct", 0, "main"),
        ("agent:main:telegram:acc:direct:42", "main", "telegram:acc:direct:42", "direct", 0, "main"),
        ("agent:main:telegram:group:-100:topic:7", "main", "telegram:group:-100:topic:7", "group", 0, "main"),
        ("agent:main:discord:channel:1:thread:2", "main", "discord:channel:1:thread:2", "group", 0, "main"),
        ("agent:main:subagent:u1", "main", "subagent:u1", "subagent", 1, "subagent"),
        ("agent:main:subagent:u1:subagent:u2", "main", "subagent:u1:subagent:u2", "subagent", 2, "subagent"),
        ("agent:main:cron:job:run:1", "main", "cron:job:run:1", "cron", 0, "cron"),
        ("agent:main:hook:x", "main", "hook:x", "hook", 0, "main"),
        ("agent:main:openai:bob", "main", "openai:bob", "other", 0, "main"),
    ],
)
def test_keys(text: str, agent: str, rest: str, kind: str, depth: int, lane: str) -> None:
    key = parse_session_key(text)
    assert key == SessionKey(agent, rest)
    assert (key.kind, key.depth, key.lane) == (kind, depth, lane)
    assert parse_session_key(str(key)) == key and not key.unnamed


def test_a_session_that_a_request_named_is_told_from_one_that_was_made_up_for_it() -> None:
    made = SessionKey("main", "openai:0b5c3b5e-6a3e-4e52-9b0f-0d6a2f1c9e77")
    assert made.unnamed and not SessionKey("main", f"{made.rest}:thread:1").unnamed


@pytest.mark.parametrize(
    "text", ["", "  ", "agent:", "agent:main", "agent:main:", "agent:../x:main", "a/b", "a\\b", "a\nb", "x" * 600]
)
def test_what_is_no_key(text: str) -> None:
    assert parse_session_key(text) is None


@given(st.text(), st.text())
def test_two_peers_never_share_a_segment(a: str, b: str) -> None:
    assert (escape_key_part(a) == escape_key_part(b)) == (a == b)
    assert not set(escape_key_part(a)) & set(":/\\\n\x00")


@pytest.mark.parametrize("ident", ["42", "user@host", "-100123", "+4912"])
def test_ordinary_ids_stay_readable(ident: str) -> None:
    assert escape_key_part(ident) == ident


@pytest.mark.parametrize(
    ("text", "ok"),
    [("main", True), ("My-Agent_2", True), ("", False), ("-x", False), ("a b", False), ("a" * 65, False)],
)
def test_agent_ids(text: str, ok: bool) -> None:
    assert (parse_agent_id(text) is not None) is ok


@pytest.mark.seed(383, 384)
def test_model_refs_split_on_the_first_slash() -> None:
    assert parse_model_ref("openrouter/moonshotai/kimi-k2") == ModelRef("openrouter", "moonshotai/kimi-k2")
    assert parse_model_ref("Anthropic/claude-opus-4-8") == ModelRef("anthropic", "claude-opus-4-8")
    assert str(ModelRef("a", "b/c")) == "a/b/c"
    assert parse_model_ref("claude") is None and parse_model_ref("/x") is None and parse_model_ref("x/") is None
