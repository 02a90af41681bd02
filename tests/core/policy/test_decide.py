"""Eight layers, one verdict: order, lists, wildcards, defaults, and the smallest change."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest

from palinurus.core.policy.decide import ToolVerdict, decide_tools, may_patch
from palinurus.core.policy.groups import BUILTIN_TOOLS, TOOL_PROFILES
from palinurus.core.policy.layers import (
    LAYERS,
    ChatPlace,
    ChatToolRules,
    PatchToolRules,
    ToolAsker,
    ToolLists,
    ToolQuestion,
    ToolRules,
    ToolScope,
    list_chat_places,
)
from palinurus.core.types.tool import Tool
from support import tool

TOOLS: dict[str, Tool] = {name: tool(name) for name in sorted(BUILTIN_TOOLS)}
OWNER = ToolAsker("me", owner=True)
ASKED = ToolQuestion("main", ("openai",), "gpt-5", asker=OWNER)
GROUP = ChatPlace("telegram", "default", "", "-5")


def lists(
    key: str = "x", allow: list[str] | None = None, deny: Any = (), also: Any = (), profile: str = ""
) -> ToolLists:
    return ToolLists(key, None if allow is None else tuple(allow), tuple(also), tuple(deny), profile)


def shared(**fields: Any) -> ToolRules:
    own = {k: fields.pop(k) for k in ("allow", "deny", "also", "profile") if k in fields}
    return ToolRules(ToolScope(lists("tools", **own), **fields))


def one(name: str, rules: ToolRules, question: ToolQuestion = ASKED, tools: Any = TOOLS) -> tuple[int, str, str] | None:
    """Layer, key and words of what hides it; None if it is offered."""
    step = decide_tools(rules, question, tools).traces[name].hiding_step
    return None if step is None else (step.layer, step.key, step.words)


def test_nothing_configured_is_everything_in_order() -> None:
    verdict = decide_tools(ToolRules(), ASKED, TOOLS)
    assert verdict.offered == tuple(TOOLS) and verdict.hidden == {} and verdict.notes == ()
    assert [(s.layer, s.name) for s in verdict.traces["read"].steps] == [*enumerate(LAYERS, 1)]


# Each layer, as (rules, question) with lists put into it.


def at(layer: int, put: ToolLists) -> tuple[ToolRules, ToolQuestion]:
    scope, agent = ToolScope(ToolLists("tools")), ToolScope(ToolLists("a"))
    match layer:
        case 3:
            scope = ToolScope(put)
        case 4:
            scope = ToolScope(ToolLists("tools"), providers={"openai": put})
        case 5:
            agent = ToolScope(put)
        case 6:
            agent = ToolScope(ToolLists("a"), providers={"openai": put})
        case 7:
            return ToolRules(chats={GROUP._replace(account=""): ChatToolRules(put)}), msgspec.structs.replace(
                ASKED, place=GROUP
            )
        case 8:
            return ToolRules(subagents=put), msgspec.structs.replace(ASKED, depth=1)
    return ToolRules(scope, {"main": agent}), ASKED


CHOICES: list[tuple[list[str] | None, list[str]]] = [
    (None, []), (["read"], []), (["*"], ["read"]), ([], []), (None, ["*"]), (["group:fs"], ["edit"]), (["re*"], []),
]  # fmt: skip


@pytest.mark.seed(284, 285, 286, 287, 288, 289, 290)
@pytest.mark.parametrize("layer", range(3, 9))
@pytest.mark.parametrize(("allow", "deny"), CHOICES)
def test_every_layer_understands_the_same_lists(layer: int, allow: list[str] | None, deny: list[str]) -> None:
    """Against the plain meaning: allowed and not denied; None is all, [] is none."""
    words = {"*": {"read", "edit", "exec"}, "group:fs": {"read", "edit"}, "re*": {"read"}}

    def expand(entries: list[str]) -> set[str]:
        return set().union(*(words.get(entry, {entry}) for entry in entries))

    rules, question = at(layer, lists("x", allow, deny))
    tools = {name: TOOLS[name] for name in ("read", "edit", "exec")}
    verdict = decide_tools(rules, question, tools)
    wanted = (set(tools) if allow is None else expand(allow)) - expand(deny)
    assert set(verdict.offered) == wanted
    for trace in verdict.traces.values():
        step = trace.hiding_step
        assert step is None or (step.layer == layer and step.key in ("x.allow", "x.deny", "x"))


@pytest.mark.seed(290)
def test_a_tool_must_pass_every_layer_and_the_first_that_hides_it_is_named() -> None:
    """All combinations of who denies exec, over the six plain layers."""
    tools = {"exec": TOOLS["exec"]}
    deny, free = lists("k", deny=["bash"]), lists("k")
    for chosen in itertools.product((False, True), repeat=6):
        third, fourth, fifth, sixth, seventh, eighth = (deny if denies else free for denies in chosen)
        rules = ToolRules(
            ToolScope(third, {"openai": fourth}),
            {"main": ToolScope(fifth, {"openai/gpt-5": sixth})},
            {GROUP._replace(account=""): ChatToolRules(seventh)},
            eighth,
        )
        found = one("exec", rules, msgspec.structs.replace(ASKED, place=GROUP, depth=1), tools)
        first = next((number for number, denies in enumerate(chosen, 3) if denies), None)
        assert (found[0] if found else None) == first


@pytest.mark.seed(281, 282)
@pytest.mark.parametrize("profile", TOOL_PROFILES)
def test_profiles(profile: str) -> None:
    rules = shared(profile=profile)
    offered = set(decide_tools(rules, ASKED, TOOLS).offered)
    assert offered == (set(TOOLS) if profile == "full" else set(TOOL_PROFILES[profile]) & set(TOOLS))
    if profile == "minimal":
        assert one("exec", rules) == (1, "tools.profile", "profile minimal does not have it")


@pytest.mark.seed(281, 291)
def test_an_agents_profile_goes_before_the_shared_one_and_also_allow_extends_it() -> None:
    agent = ToolScope(lists("a", profile="minimal", also=["exec"]))
    rules = msgspec.structs.replace(shared(profile="full", also=["write"]), agents={"main": agent})
    assert decide_tools(rules, ASKED, TOOLS).offered == ("exec", "session_status")
    assert decide_tools(rules, msgspec.structs.replace(ASKED, agent="other"), TOOLS).offered == tuple(TOOLS)
    inherited = msgspec.structs.replace(
        shared(profile="minimal", also=["write"]), agents={"main": ToolScope(lists("a", also=["exec"]))}
    )
    assert set(decide_tools(inherited, ASKED, TOOLS).offered) == {"session_status", "exec", "write", "apply_patch"}


@pytest.mark.seed(291)
def test_also_allow_without_an_allow_list_takes_nothing_away() -> None:
    assert decide_tools(shared(also=["exec"]), ASKED, TOOLS).offered == tuple(TOOLS)
    assert decide_tools(shared(allow=[], also=["exec"]), ASKED, TOOLS).offered == ("exec",)


@pytest.mark.seed(283, 285)
def test_the_models_own_entry_goes_before_its_providers() -> None:
    providers = {"Open-AI": lists("p", profile="minimal"), "openai/GPT-5": lists("m", deny=["exec"])}
    rules = shared(providers=providers)
    assert one("read", rules) is None and one("exec", rules) == (4, "m.deny", "m.deny names it")
    assert one("read", rules, msgspec.structs.replace(ASKED, model="gpt-4")) == (
        2,
        "p.profile",
        "profile minimal does not have it",
    )
    assert one("read", rules, msgspec.structs.replace(ASKED, providers=("zai", "z.ai"))) is None


@pytest.mark.seed(283)
def test_another_spelling_of_a_provider_does_not_get_around_its_rules() -> None:
    rules = shared(providers={"z.ai": lists("p", deny=["exec"])})
    for names in (("zai", "z-ai"), ("Z-AI",), ("zhipu", "z.ai")):
        assert one("exec", rules, msgspec.structs.replace(ASKED, providers=names)) == (4, "p.deny", "p.deny names it")


def test_who_may_write_may_patch_unless_it_is_denied() -> None:
    assert decide_tools(shared(allow=["write"]), ASKED, TOOLS).offered == ("apply_patch", "write")
    assert decide_tools(shared(allow=["write"], deny=["apply-patch"]), ASKED, TOOLS).offered == ("write",)


@pytest.mark.parametrize("word", ["raed", "notes", "group:plugins", "zz*"])
def test_an_allow_list_without_any_tool_of_ours_is_passed_over_and_said_so(word: str) -> None:
    tools = {**TOOLS, "notes_add": tool("notes_add", origin="notes")}
    verdict = decide_tools(shared(allow=[word]), ASKED, tools)
    assert verdict.offered == tuple(tools)
    assert verdict.notes == ("tools.allow names none of the built-in tools and is passed over",)
    assert decide_tools(shared(allow=[word, "read"]), ASKED, TOOLS).offered == ("read",)


def test_a_known_tool_that_is_not_built_still_counts() -> None:
    assert decide_tools(shared(allow=["browser"]), ASKED, {"read": TOOLS["read"]}).offered == ()


def test_unknown_names_do_not_open_the_sandbox_or_sub_agents() -> None:
    assert (
        decide_tools(ToolRules(subagents=lists("s", ["raed"])), msgspec.structs.replace(ASKED, depth=1), TOOLS).offered
        == ()
    )


@pytest.mark.seed(288)
def test_chats_and_senders() -> None:
    everywhere, here = ChatPlace("telegram"), ChatPlace("telegram", chat="-5")
    chats = {
        everywhere: ChatToolRules(lists("all", ["read"])),
        here: ChatToolRules(
            lists("here", ["read", "exec"]), {"id:7": lists("seven", []), "name:Bob": lists("bob", deny=["exec"])}
        ),
    }
    rules = ToolRules(chats=chats)

    def offered(place: ChatPlace, asker: ToolAsker) -> tuple[str, ...]:
        return decide_tools(rules, msgspec.structs.replace(ASKED, place=place, asker=asker), TOOLS).offered

    assert offered(GROUP, ToolAsker("1")) == ("exec", "read")
    assert offered(GROUP, ToolAsker("7")) == ()
    assert offered(GROUP, ToolAsker("1", "Bob")) == ("read",)
    assert offered(GROUP._replace(chat="-6"), ToolAsker("7")) == ("read",)
    assert len(offered(GROUP._replace(direct=True), OWNER)) == len(TOOLS)
    assert len(offered(ChatPlace("discord", chat="-5"), OWNER)) == len(TOOLS)


def test_a_name_that_anybody_can_take_gives_no_tool() -> None:
    chats = {
        ChatPlace("telegram"): ChatToolRules(lists("all", ["read"]), {"name:boss": lists("boss", ["exec", "read"])})
    }
    asked = msgspec.structs.replace(ASKED, place=GROUP, asker=ToolAsker("1", "boss"))
    assert decide_tools(ToolRules(chats=chats), asked, TOOLS).offered == ("read",)


def test_where_rules_of_a_chat_may_stand() -> None:
    found = [tuple(p)[1:4] for p in list_chat_places(ChatPlace("d", "acc", "g", "c"))]
    assert found == [
        ("acc", "g", "c"), ("acc", "", "c"), ("acc", "g", "*"), ("acc", "", "*"),
        ("", "g", "c"), ("", "", "c"), ("", "g", "*"), ("", "", "*"),
    ]  # fmt: skip
    assert not list(list_chat_places(ChatPlace("d")))


@pytest.mark.seed(289)
def test_the_sandbox() -> None:
    asked = msgspec.structs.replace(ASKED, sandboxed=True)
    default = decide_tools(ToolRules(), asked, TOOLS).offered
    assert {"exec", "read", "grep", "image", "session_status"} <= set(default)
    assert not {"browser", "cron", "gateway", "nodes", "canvas", "web_fetch", "memory_search"} & set(default)

    def offered(shared: ToolLists | None, agent: ToolLists | None = None) -> set[str]:
        rules = ToolRules(ToolScope(ToolLists("t"), sandbox=shared), {"main": ToolScope(ToolLists("a"), sandbox=agent)})
        return set(decide_tools(rules, asked, TOOLS).offered)

    assert offered(lists("s", also=["cron"])) == {*default, "cron"}
    assert offered(lists("s", [])) == set(TOOLS) - {"browser", "canvas", "nodes", "cron", "gateway"}
    assert offered(lists("s", ["read", "cron"])) == {"read", "cron", "image"}
    assert offered(lists("s", ["*"])) == set(TOOLS) - {"browser", "canvas", "nodes", "cron", "gateway"}
    assert offered(lists("s", ["read"], deny=["image"])) == {"read"}
    assert offered(lists("s", ["read"]), lists("a", deny=["image"])) == {"read"}
    assert offered(lists("s", ["read"], also=[]), lists("a", also=["edit"])) == {"read", "image", "edit"}


def test_a_denial_that_stands_behind_another_is_to_be_taken_out_too() -> None:
    rules = shared(sandbox=lists("tools.sandbox.tools", deny=["read", "nodes"]))
    own = ToolScope(lists("agent"), sandbox=lists("agent.sandbox", deny=["read"]))
    rules = msgspec.structs.replace(rules, agents={"main": own})
    changes = decide_tools(rules, msgspec.structs.replace(ASKED, sandboxed=True), TOOLS).traces["read"].changes
    assert [(c.key, c.value) for c in changes] == [("agent.sandbox.deny", []), ("tools.sandbox.tools.deny", ["nodes"])]


@pytest.mark.seed(289)
def test_sub_agents() -> None:
    def offered(depth: int, deepest: int, config: ToolLists = ToolLists("s")) -> set[str]:
        rules = ToolRules(subagents=config, deepest={"main": deepest})
        return set(decide_tools(rules, msgspec.structs.replace(ASKED, depth=depth), TOOLS).offered)

    everyone = {"gateway", "agents_list", "cron", "memory_search", "memory_get", "sessions_send"} | (
        {"session_search"} & set(TOOLS)
    )
    assert set(TOOLS) - offered(1, 2) == everyone
    assert set(TOOLS) - offered(1, 1) == everyone | {"sessions_list", "sessions_history", "sessions_spawn"}
    assert "memory_get" in offered(1, 1, lists("s", also=["group:memory"]))
    assert "memory_get" not in offered(1, 1, lists("s", also=["*"]))
    assert offered(1, 1, lists("s", ["read", "cron"])) == {"read", "cron"}
    assert offered(1, 1, lists("s", deny=["*"])) == set()


def test_a_sub_agent_never_has_more_than_its_parent() -> None:
    asked = msgspec.structs.replace(ASKED, depth=1, inherited=lists("the parent's", ["read", "exec"], ["exec"]))
    verdict = decide_tools(ToolRules(), asked, TOOLS)
    assert verdict.offered == ("read",)
    assert [c.words for c in verdict.traces["write"].changes] == ["allow it in the session that started this one"]


@pytest.mark.seed(277)
def test_tools_for_the_owner_only() -> None:
    tools = {**TOOLS, "whatsapp_login": tool("whatsapp_login", owner=True)}
    stranger = msgspec.structs.replace(ASKED, asker=ToolAsker("you"))
    assert set(tools) - set(decide_tools(ToolRules(), stranger, tools).offered) == {
        "cron",
        "gateway",
        "nodes",
        "whatsapp_login",
    }
    assert decide_tools(ToolRules(), ASKED, tools).offered == tuple(tools)
    (change,) = decide_tools(ToolRules(), stranger, tools).traces["gateway"].changes
    assert change.key == "" and "owner" in change.words


@pytest.mark.seed(279)
def test_apply_patch_has_a_gate_of_its_own() -> None:
    assert one("apply_patch", ToolRules()) is None
    assert one("apply_patch", ToolRules(patch=PatchToolRules(enabled=False))) == (
        0, "tools.exec.applyPatch.enabled", "tools.exec.applyPatch.enabled is false",
    )  # fmt: skip
    claude = msgspec.structs.replace(ASKED, providers=("anthropic",), model="claude-x")
    assert one("apply_patch", ToolRules(), claude) is not None
    for name in ("claude-x", "anthropic/claude-x", "ANTHROPIC/Claude-X", "*"):
        assert one("apply_patch", ToolRules(patch=PatchToolRules(models=(name,))), claude) is None
    assert not may_patch(("gpt-4",), ("openai",), "gpt-5") and may_patch((), ("openai",), "gpt-5")


def test_the_model_and_the_session_have_a_say() -> None:
    assert one("read", ToolRules(), msgspec.structs.replace(ASKED, callable=False)) == (
        0,
        "",
        "the model cannot call tools",
    )
    small = msgspec.structs.replace(ASKED, narrow=("read", "exec"), exec_denied=True)
    verdict = decide_tools(ToolRules(narrowed={"openai/gpt-5": "models.x"}), small, TOOLS)
    assert verdict.offered == ("read",)
    assert verdict.traces["exec"].changes[0].words == "say /exec security=full"
    (change,) = verdict.traces["write"].changes
    assert (change.key, change.value) == ("models.x", ["read", "exec", "write"])


def test_changes_are_said_once_and_name_all_that_stands_in_the_way() -> None:
    rules = shared(profile="minimal", allow=[], deny=["group:runtime"])
    changes = decide_tools(rules, ASKED, TOOLS).traces["exec"].changes
    assert [(c.key, c.value) for c in changes] == [
        ("tools.alsoAllow", ["exec"]),
        ("tools.deny", ["process", "code_execution"]),
    ]
    named = shared(profile="minimal", allow=["read"])
    assert [(c.key, c.value) for c in decide_tools(named, ASKED, TOOLS).traces["exec"].changes] == [
        ("tools.profile", "coding"),
        ("tools.allow", ["read", "exec"]),
    ]


def test_hidden_says_who() -> None:
    verdict: ToolVerdict = decide_tools(shared(deny=["read"]), ASKED, {"read": TOOLS["read"], "grep": TOOLS["grep"]})
    assert verdict.hidden == {
        "read": "tools.deny names it (layer 3)",
        "grep": "tools.deny has read, which takes it away (layer 3)",
    }
