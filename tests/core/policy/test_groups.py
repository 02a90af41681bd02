"""Names of tools: spellings, groups, profiles."""

from __future__ import annotations

import pytest

from palinurus.core.policy.groups import (
    BASE,
    GROUPS,
    NAMES,
    OWNER,
    PROFILES,
    allowing,
    canonical,
    core,
    denying,
    known,
    means,
    meant,
    smallest,
    without,
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
    later = {"code_execution", "x_search", "sessions_yield", "heartbeat_respond"}
    assert {name for name in NAMES if means(group, name, "")} - later == names == set(GROUPS[group]) - later


@pytest.mark.seed(276, 301)
def test_the_group_of_all_native_tools_has_no_plugins_and_none_that_reads_or_runs() -> None:
    native = {name for name in NAMES if means("group:openclaw", name, "")}
    assert native == NAMES - set(BASE)
    assert native >= {"browser", "canvas", "nodes", "cron", "message", "memory_search", "web_search", "image"}
    assert native >= {"sessions_spawn", "subagents"}
    assert not any(means("group:openclaw", name, one.origin) for name, one in PLUGIN.items())


def test_plugins() -> None:
    def names(word: str) -> list[str]:
        return [name for name, one in PLUGIN.items() if means(word, name, one.origin)]

    assert names("group:plugins") == [*PLUGIN]
    assert names("notes") == ["notes_add", "notes_list"]
    assert names("Bundle-MCP") == ["github__issue"]
    assert names("notes_*") == ["notes_add", "notes_list"]
    assert not means("group:plugins", "read", "")


@pytest.mark.parametrize(
    "word", ["exec", "Exec", " exec ", "ｅxec", "ＥＸＥＣ", "bash", "BASH", "e*c", "*", "group:runtime"]
)
def test_spellings_of_exec(word: str) -> None:
    assert means(word, "exec", "")
    assert word == "*" or not means(word, "exec2", "")


@pytest.mark.parametrize("word", ["ex?c", "[e]xec", "exe", "execute", "", "group:fs", "group:nothing", "еxec"])
def test_what_is_not_exec(word: str) -> None:
    assert not means(word, "exec", "")


def test_aliases() -> None:
    assert canonical("Apply-Patch") == "apply_patch" and canonical("bash") == "exec"


def test_who_may_write_may_patch_and_who_may_not_read_may_not_search() -> None:
    assert allowing(["write"], "apply_patch", "") and not denying(["write"], "apply_patch", "")
    assert not allowing(["read"], "grep", "")
    assert [n for n in BASE if denying(["read"], n, "")] == ["read", "grep", "find", "ls"]


@pytest.mark.seed(281, 282)
def test_profiles() -> None:
    assert list(PROFILES) == ["minimal", "messaging", "coding", "full"]
    assert PROFILES["minimal"] == ("session_status",) and PROFILES["full"] == ("*",)
    for group in ("group:fs", "group:runtime", "group:sessions", "group:memory"):
        assert set(GROUPS[group]) <= set(PROFILES["coding"])
    assert {"grep", "find", "ls", "image"} <= set(PROFILES["coding"])
    assert "message" in PROFILES["messaging"] and "exec" not in PROFILES["messaging"]
    assert [smallest(n, "") for n in ("session_status", "message", "exec", "nodes")] == [
        "minimal",
        "messaging",
        "coding",
        "full",
    ]
    assert smallest("github__issue", "bundle-mcp:github") == "messaging"


def test_taking_one_out_leaves_the_others() -> None:
    assert without(("exec", "bash", "read"), "exec", "", {}) == ("read",)
    assert without(("group:fs",), "edit", "", {}) == ("read", "write", "apply_patch")
    assert without(("group:fs",), "grep", "", {}) == ("write", "edit", "apply_patch")
    left = without(("*",), "exec", "", PLUGIN)
    assert set(left) == (NAMES | set(PLUGIN)) - {"exec"}
    assert without(("notes",), "notes_add", "notes", PLUGIN) == ("notes_list",)
    for words in (("*",), ("group:openclaw", "x*"), ("mem*",)):
        for name in sorted(NAMES):
            assert not denying(without(words, name, "", PLUGIN), name, "")


def test_what_is_known() -> None:
    assert all(known(w) for w in ("exec", "bash", "group:plugins", "bundle-mcp", "group:openclaw", "mem*", "pdf"))
    assert not any(known(w) for w in ("raed", "group:sf", "zz*", "notes"))
    assert known("notes", PLUGIN) and not core("notes", PLUGIN) and core("*") and not core("group:plugins", PLUGIN)
    assert (meant("raed"), meant("group:sf"), meant("qqqqqq")) == ("read", "group:fs", "")


def test_every_name_of_a_profile_or_of_the_owners_is_known() -> None:
    assert OWNER <= NAMES
    for words in PROFILES.values():
        assert all(known(word) for word in words)
