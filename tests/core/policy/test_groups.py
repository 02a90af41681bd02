"""Names of tools: spellings, groups, profiles."""

from __future__ import annotations

import pytest

from palinurus.core.policy.groups import (
    BASE_TOOLS,
    BUILTIN_TOOLS,
    OWNER_TOOLS,
    TOOL_GROUPS,
    TOOL_PROFILES,
    allows_tool,
    find_denying_word,
    find_smallest_profile,
    is_known_word,
    matches_tool,
    names_builtin,
    normalize_tool_name,
    remove_tool,
    suggest_word,
)
from palinurus.core.types.tool import Tool
from support import tool

PLUGIN: dict[str, Tool] = {
    "notes_add": tool("notes_add", origin="notes"),
    "notes_list": tool("notes_list", origin="notes"),
    "github__issue": tool("github__issue", origin="bundle-mcp:github"),
}


@pytest.mark.parametrize(
    ("group", "names"),
    [
        pytest.param("group:fs", {"read", "write", "edit", "apply_patch"}, marks=pytest.mark.seed(292)),
        pytest.param("group:runtime", {"exec", "process"}, marks=pytest.mark.seed(293)),
        pytest.param("group:memory", {"memory_search", "memory_get"}, marks=pytest.mark.seed(294)),
        pytest.param("group:web", {"web_search", "web_fetch"}, marks=pytest.mark.seed(295)),
        pytest.param(
            "group:sessions",
            {"sessions_list", "sessions_history", "sessions_send", "sessions_spawn", "subagents", "session_status"},
            marks=pytest.mark.seed(296),
        ),
        pytest.param("group:ui", {"browser", "canvas"}, marks=pytest.mark.seed(297)),
        pytest.param("group:automation", {"cron", "gateway"}, marks=pytest.mark.seed(298)),
        pytest.param("group:messaging", {"message"}, marks=pytest.mark.seed(299)),
        pytest.param("group:nodes", {"nodes"}, marks=pytest.mark.seed(300)),
    ],
)
def test_groups(group: str, names: set[str]) -> None:
    # Tools that came after the seeds may stand in their groups, too.
    later = {"code_execution", "x_search", "sessions_yield", "heartbeat_respond", "session_search"}
    assert (
        {name for name in BUILTIN_TOOLS if matches_tool(group, name, "")} - later
        == names
        == set(TOOL_GROUPS[group]) - later
    )


@pytest.mark.seed(276, 301)
def test_the_group_of_all_native_tools_has_no_plugins_and_none_that_reads_or_runs() -> None:
    native = {name for name in BUILTIN_TOOLS if matches_tool("group:openclaw", name, "")}
    assert native == BUILTIN_TOOLS - set(BASE_TOOLS)
    assert native >= {"browser", "canvas", "nodes", "cron", "message", "memory_search", "web_search", "image"}
    assert native >= {"sessions_spawn", "subagents"}
    assert not any(matches_tool("group:openclaw", name, one.origin) for name, one in PLUGIN.items())


def test_plugins() -> None:
    def names(word: str) -> list[str]:
        return [name for name, one in PLUGIN.items() if matches_tool(word, name, one.origin)]

    assert names("group:plugins") == [*PLUGIN]
    assert names("notes") == ["notes_add", "notes_list"]
    assert names("Bundle-MCP") == ["github__issue"]
    assert names("notes_*") == ["notes_add", "notes_list"]
    assert not matches_tool("group:plugins", "read", "")


@pytest.mark.parametrize(
    "word", ["exec", "Exec", " exec ", "ｅxec", "ＥＸＥＣ", "bash", "BASH", "e*c", "*", "group:runtime"]
)
def test_spellings_of_exec(word: str) -> None:
    assert matches_tool(word, "exec", "")
    assert word == "*" or not matches_tool(word, "exec2", "")


@pytest.mark.parametrize("word", ["ex?c", "[e]xec", "exe", "execute", "", "group:fs", "group:nothing", "еxec"])
def test_what_is_not_exec(word: str) -> None:
    assert not matches_tool(word, "exec", "")


def test_aliases() -> None:
    assert normalize_tool_name("Apply-Patch") == "apply_patch" and normalize_tool_name("bash") == "exec"


def test_who_may_write_may_patch_and_who_may_not_read_may_not_search() -> None:
    assert allows_tool(["write"], "apply_patch", "") and not find_denying_word(["write"], "apply_patch", "")
    assert not allows_tool(["read"], "grep", "")
    assert [n for n in BASE_TOOLS if find_denying_word(["read"], n, "")] == ["read", "grep", "find", "ls"]


@pytest.mark.seed(281, 282)
def test_profiles() -> None:
    assert list(TOOL_PROFILES) == ["minimal", "messaging", "coding", "full"]
    assert TOOL_PROFILES["minimal"] == ("session_status",) and TOOL_PROFILES["full"] == ("*",)
    for group in ("group:fs", "group:runtime", "group:sessions", "group:memory"):
        assert set(TOOL_GROUPS[group]) <= set(TOOL_PROFILES["coding"])
    assert {"grep", "find", "ls", "image"} <= set(TOOL_PROFILES["coding"])
    assert "message" in TOOL_PROFILES["messaging"] and "exec" not in TOOL_PROFILES["messaging"]
    assert [find_smallest_profile(n, "") for n in ("session_status", "message", "exec", "nodes")] == [
        "minimal",
        "messaging",
        "coding",
        "full",
    ]
    assert find_smallest_profile("github__issue", "bundle-mcp:github") == "messaging"


def test_taking_one_out_leaves_the_others() -> None:
    assert remove_tool(("exec", "bash", "read"), "exec", "", {}) == ("read",)
    assert remove_tool(("group:fs",), "edit", "", {}) == ("read", "write", "apply_patch")
    assert remove_tool(("group:fs",), "grep", "", {}) == ("write", "edit", "apply_patch")
    left = remove_tool(("*",), "exec", "", PLUGIN)
    assert set(left) == (BUILTIN_TOOLS | set(PLUGIN)) - {"exec"}
    assert remove_tool(("notes",), "notes_add", "notes", PLUGIN) == ("notes_list",)
    for words in (("*",), ("group:openclaw", "x*"), ("mem*",)):
        for name in sorted(BUILTIN_TOOLS):
            assert not find_denying_word(remove_tool(words, name, "", PLUGIN), name, "")


def test_what_is_known() -> None:
    assert all(
        is_known_word(w) for w in ("exec", "bash", "group:plugins", "bundle-mcp", "group:openclaw", "mem*", "pdf")
    )
    assert not any(is_known_word(w) for w in ("raed", "group:sf", "zz*", "notes"))
    assert (
        is_known_word("notes", PLUGIN)
        and not names_builtin("notes", PLUGIN)
        and names_builtin("*")
        and not names_builtin("group:plugins", PLUGIN)
    )
    assert (suggest_word("raed"), suggest_word("group:sf"), suggest_word("qqqqqq")) == ("read", "group:fs", "")


def test_every_name_of_a_profile_or_of_the_owners_is_known() -> None:
    assert OWNER_TOOLS <= BUILTIN_TOOLS
    for words in TOOL_PROFILES.values():
        assert all(is_known_word(word) for word in words)
