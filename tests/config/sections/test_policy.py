"""The lists of the config, where they stand, and the change that lets a tool in, applied and tried."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palinurus.config.keypath import parse_path
from palinurus.config.load import judge_config, load_config
from palinurus.config.sections.policy import find_key_source
from palinurus.config.settings import Settings
from palinurus.core.policy.decide import decide_tools
from palinurus.core.policy.groups import BUILTIN_TOOLS, TOOL_GROUPS
from palinurus.core.policy.layers import ChatPlace, ToolAsker, ToolQuestion
from palinurus.core.types.tool import Tool
from support import tool

ENV = {"HOME": "/nowhere"}
TOOLS: dict[str, Tool] = {
    **{name: tool(name) for name in sorted(BUILTIN_TOOLS)},
    "notes_add": tool("notes_add", origin="notes"),
    "mcp__x": tool("mcp__x", origin="bundle-mcp:srv"),
}


def read(raw: dict[str, Any]) -> Settings:
    reading = judge_config(json.dumps(raw), "f", "/h", ENV)
    assert reading.settings is not None, reading.problems
    return reading.settings


def problems(raw: dict[str, Any]) -> list[tuple[str, bool, str]]:
    return [(p.path, p.fatal, p.hint) for p in judge_config(json.dumps(raw), "f", "/h", ENV).problems]


def test_every_place_is_found_with_its_key() -> None:
    some = {"deny": ["exec"]}
    raw = {
        "tools": {
            "profile": "coding",
            "alsoAllow": ["message"],
            "deny": ["exec"],
            "byProvider": {"openai/gpt-5": {"profile": "minimal"}},
            "toolsBySender": {"id:1": some},
            "sandbox": {"tools": some},
            "subagents": {"tools": some},
            "exec": {"applyPatch": {"enabled": False, "allowModels": ["m"]}},
        },
        "agents": {
            "defaults": {"subagents": {"maxSpawnDepth": 2}},
            "list": [{"id": "main", "tools": {"allow": [], "byProvider": {"x": some}}}],
            "entries": {"Work": {"tools": some, "subagents": {"maxSpawnDepth": 3}}},
        },
        "models": {"providers": {"p": {"models": [{"id": "m", "compat": {"toolNames": ["read"]}}]}}},
    }
    rules = read(raw).policy
    own = rules.shared.own
    assert (own.key, own.profile, own.also, own.deny, own.allow) == ("tools", "coding", ("message",), ("exec",), None)
    assert rules.shared.providers["openai/gpt-5"].key == "tools.byProvider.openai/gpt-5"
    assert rules.shared.senders["id:1"].key == "tools.toolsBySender.id:1"
    assert rules.shared.sandbox is not None and rules.shared.sandbox.key == "tools.sandbox.tools"
    assert rules.subagents.key == "tools.subagents.tools"
    assert rules.agents["main"].own.allow == () and rules.agents["main"].own.key == "agents.list[0].tools"
    assert rules.agents["main"].providers["x"].key == "agents.list[0].tools.byProvider.x"
    assert rules.agents["work"].own.key == "agents.entries.Work.tools"
    assert (rules.patch.enabled, rules.patch.models) == (False, ("m",))
    assert rules.deepest == {"main": 2, "work": 3}
    assert rules.narrowed == {"p/m": "models.providers.p.models[0].compat.toolNames"}


@pytest.mark.seed(288)
def test_rules_of_chats() -> None:
    some = {"tools": {"allow": ["read"]}}
    raw = {
        "channels": {
            "defaults": {"groups": {"*": some}},
            "telegram": {
                "groups": {"*": some, "-100": {"toolsBySender": {"id:7": {"deny": ["exec"]}}}, "-7": {"other": 1}},
                "direct": {"42": some},
                "accounts": {"two": {"groups": {"-100": some}}},
            },
            "discord": {"guilds": {"G": {**some, "channels": {"C": some}}, "*": some}},
            "matrix": {"rooms": {"!a:b": some}},
        }
    }
    chats = read(raw).policy.chats
    assert set(chats) == {
        ChatPlace("telegram", chat="*"),
        ChatPlace("telegram", chat="-100"),
        ChatPlace("telegram", chat="42", direct=True),
        ChatPlace("telegram", "two", chat="-100"),
        ChatPlace("discord", guild="G"),
        ChatPlace("discord", guild="G", chat="c"),
        ChatPlace("discord"),
        ChatPlace("matrix"),  # by channels.defaults: it has no groups of its own
        ChatPlace("matrix", chat="!a:b"),
        ChatPlace("matrix", chat="~!a%3a.b"),
    }
    assert chats[ChatPlace("telegram", chat="-100")].senders["id:7"].key == (
        "channels.telegram.groups.-100.toolsBySender.id:7"
    )


def test_what_is_odd_is_said_once_with_a_hint() -> None:
    assert problems({"tools": {"deny": ["raed", "qqqqq", "exec"]}}) == [
        ("tools.deny[0]", False, "did you mean 'read'?"),
        ("tools.deny[1]", False, "`pal policy list` shows the tools there are"),
    ]
    assert problems({"tools": {"allow": ["raed"]}}) == [
        ("tools.allow[0]", False, "did you mean 'read'?"),
        ("tools.allow", False, "to allow no tool at all write []"),
    ]
    assert problems({"tools": {"allow": ["bash", "group:fs", "mem*"], "deny": ["bundle-mcp"]}}) == []
    assert problems({"tools": {"alsoAllow": ["notes", "notes_add"]}, "plugins": {"entries": {"notes": {}}}}) == []


def test_allow_beside_also_allow_is_an_error_everywhere() -> None:
    both = {"allow": ["read"], "alsoAllow": ["exec"]}
    hint = "move its names into allow"
    assert problems({"tools": both}) == [("tools.alsoAllow", True, hint)]
    assert problems({"agents": {"list": [{"id": "a", "tools": both}]}}) == [
        ("agents.list[0].tools.alsoAllow", True, hint)
    ]
    assert problems({"tools": {"sandbox": {"tools": both}}}) == [("tools.sandbox.tools.alsoAllow", True, hint)]


def test_a_list_that_is_none_in_a_chat_is_an_error_not_nothing() -> None:
    raw = {"channels": {"telegram": {"groups": {"*": {"tools": {"deny": "exec"}}}}}}
    assert problems(raw) == [("channels.telegram.groups.*.tools.deny", True, "put it in [ ]")]


def test_rules_by_name_are_warned_about() -> None:
    raw = {"tools": {"toolsBySender": {"name:Bob": {"deny": ["exec"]}}}}
    assert problems(raw) == [("tools.toolsBySender.name:Bob", False, "use id:")]


def test_where_a_key_stands(tmp_path: Path) -> None:
    file = tmp_path / "palinurus.json"
    file.write_text('{\n  tools: {\n    deny: ["exec"],\n  },\n}\n')
    known = load_config(str(tmp_path), ENV).settings
    assert find_key_source(known, "tools.deny") == f"{file}:3"
    assert (
        find_key_source(known, "") == "" and find_key_source(known, "tools.sandbox.tools") == ""
    )  # not written: a default
    file.write_text("{}")  # edited since: the old lines mean nothing in it, but the copy still has them
    assert find_key_source(known, "tools.deny") == f"{file}.last-good:3"
    (tmp_path / "palinurus.json.last-good").unlink()
    assert find_key_source(known, "tools.deny") == ""


# Generated configs: the change that explain proposes, written into the config, lets the tool in.

WORDS = st.sampled_from(
    ["read", "exec", "bash", "write", "apply_patch", "grep", "cron", "message", "session_status", "memory_get", "mem*",
     "*", "sessions_*", "raed", "notes", "bundle-mcp", "group:plugins", "group:openclaw", *TOOL_GROUPS]
)  # fmt: skip
LISTS = st.lists(WORDS, max_size=3)
PROFILE = st.sampled_from(["minimal", "messaging", "coding", "full"])


def section(*, profile: bool = False) -> st.SearchStrategy[dict[str, Any]]:
    fields: dict[str, Any] = {"allow": LISTS, "deny": LISTS}
    other: dict[str, Any] = {"alsoAllow": LISTS, "deny": LISTS}
    if profile:
        fields["profile"] = other["profile"] = PROFILE
    return st.one_of(st.fixed_dictionaries({}, optional=fields), st.fixed_dictionaries({}, optional=other))


def merged(base: st.SearchStrategy[dict[str, Any]], **more: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.builds(lambda a, b: {**a, **b}, base, st.fixed_dictionaries({}, optional=more))


PROVIDERS = st.dictionaries(st.sampled_from(["p", "p/m"]), section(profile=True), max_size=2)
SANDBOX = st.builds(lambda lists: {"tools": lists}, section())
SENDERS = st.dictionaries(st.sampled_from(["id:7", "*", "name:Bob"]), section(), max_size=2)
CHAT = st.fixed_dictionaries({}, optional={"tools": section(), "toolsBySender": SENDERS})
CONFIGS = st.fixed_dictionaries(
    {
        "tools": merged(
            section(profile=True),
            byProvider=PROVIDERS,
            toolsBySender=SENDERS,
            sandbox=SANDBOX,
            subagents=SANDBOX,
            exec=st.fixed_dictionaries(
                {"applyPatch": st.fixed_dictionaries({}, optional={"enabled": st.booleans(), "allowModels": LISTS})}
            ),
        ),
        "agents": st.builds(
            lambda tools: {"list": [{"id": "main", "tools": tools}]},
            merged(section(profile=True), byProvider=PROVIDERS, toolsBySender=SENDERS, sandbox=SANDBOX),
        ),
        "channels": st.builds(lambda some: {"telegram": {"groups": some}}, st.dictionaries(
            st.sampled_from(["*", "-5"]), CHAT, max_size=2
        )),
    }
)  # fmt: skip
QUESTIONS = st.builds(
    ToolQuestion,
    st.just("main"),
    st.just(("p",)),
    st.just("m"),
    st.integers(0, 2),
    st.builds(ToolAsker, st.sampled_from(["7", "8"]), st.sampled_from(["", "Bob"]), st.just(True)),
    st.sampled_from([ChatPlace(""), ChatPlace("telegram", "default", "", "-5"), ChatPlace("telegram", chat="9")]),
    st.booleans(),
    callable=st.just(True),
    narrow=st.none(),
    exec_denied=st.just(False),
    shared=st.just(False),
    inherited=st.none(),
)


def written(raw: dict[str, Any], key: str, value: Any) -> None:
    """Put `value` at `key`, as `pal config set` would."""
    *above, last = parse_path(key)
    at: Any = raw
    for name in above:
        at = at[name] if isinstance(name, int) else at.setdefault(name, {})
    at[last] = value


@settings(max_examples=120, deadline=None)
@given(raw=CONFIGS, question=QUESTIONS, name=st.sampled_from(sorted(TOOLS)))
def test_the_proposed_change_lets_the_tool_in(raw: dict[str, Any], question: ToolQuestion, name: str) -> None:
    before = read(raw)
    verdict = decide_tools(before.policy, question, TOOLS)
    trace = verdict.traces[name]
    if trace.hiding_step is None:
        assert trace.changes == () and name in verdict.offered
        return
    assert trace.changes and all(change.key for change in trace.changes)
    changed = copy.deepcopy(raw)
    for change in trace.changes:
        written(changed, change.key, change.value)
    after = decide_tools(read(changed).policy, question, TOOLS)
    assert name in after.offered, after.traces[name].hiding_step


@settings(max_examples=60, deadline=None)
@given(raw=CONFIGS, question=QUESTIONS, extra=WORDS)
def test_one_more_denied_word_never_gives_a_tool(raw: dict[str, Any], question: ToolQuestion, extra: str) -> None:
    """Deny wins whatever else is said."""
    before = set(decide_tools(read(raw).policy, question, TOOLS).offered)
    harder = copy.deepcopy(raw)
    harder["tools"]["deny"] = [*harder["tools"].get("deny", []), extra]
    assert set(decide_tools(read(harder).policy, question, TOOLS).offered) <= before
