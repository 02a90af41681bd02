"""Eight layers, one verdict: order, lists, wildcards, defaults, and the smallest change."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest

from palinurus.core.policy.decide import Verdict, decide, patched
from palinurus.core.policy.groups import NAMES, PROFILES
from palinurus.core.policy.layers import LAYERS, Chat, Lists, Patch, Place, Question, Rules, Scope, places
from palinurus.core.policy.senders import Asker
from palinurus.core.types.tool import Tool
from support import tool

TOOLS: dict[str, Tool] = {name: tool(name) for name in sorted(NAMES)}
OWNER = Asker("me", owner=True)
ASKED = Question("main", ("openai",), "gpt-5", asker=OWNER)
GROUP = Place("telegram", "default", "", "-5")


def lists(key: str = "x", allow: list[str] | None = None, deny: Any = (), also: Any = (), profile: str = "") -> Lists:
    return Lists(key, None if allow is None else tuple(allow), tuple(also), tuple(deny), profile)


def shared(**fields: Any) -> Rules:
    own = {k: fields.pop(k) for k in ("allow", "deny", "also", "profile") if k in fields}
    return Rules(Scope(lists("tools", **own), **fields))


def one(name: str, rules: Rules, question: Question = ASKED, tools: Any = TOOLS) -> tuple[int, str, str] | None:
    """Layer, key and words of what hides it; None if it is offered."""
    step = decide(rules, question, tools).traces[name].hiding_step
    return None if step is None else (step.layer, step.key, step.words)


def test_nothing_configured_is_everything_in_order() -> None:
    verdict = decide(Rules(), ASKED, TOOLS)
    assert verdict.offered == tuple(TOOLS) and verdict.hidden == {} and verdict.notes == ()
    assert [(s.layer, s.name) for s in verdict.traces["read"].steps] == [*enumerate(LAYERS, 1)]


# Each layer, as (rules, question) with lists put into it.


def at(layer: int, put: Lists) -> tuple[Rules, Question]:
    scope, agent = Scope(Lists("tools")), Scope(Lists("a"))
    match layer:
        case 3:
            scope = Scope(put)
        case 4:
            scope = Scope(Lists("tools"), providers={"openai": put})
        case 5:
            agent = Scope(put)
        case 6:
            agent = Scope(Lists("a"), providers={"openai": put})
        case 7:
            return Rules(chats={GROUP._replace(account=""): Chat(put)}), ASKED._replace(place=GROUP)
        case 8:
            return Rules(subagents=put), ASKED._replace(depth=1)
    return Rules(scope, {"main": agent}), ASKED


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
    verdict = decide(rules, question, tools)
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
        rules = Rules(
            Scope(third, {"openai": fourth}),
            {"main": Scope(fifth, {"openai/gpt-5": sixth})},
            {GROUP._replace(account=""): Chat(seventh)},
            eighth,
        )
        found = one("exec", rules, ASKED._replace(place=GROUP, depth=1), tools)
        first = next((number for number, denies in enumerate(chosen, 3) if denies), None)
        assert (found[0] if found else None) == first


@pytest.mark.seed(281, 282)
@pytest.mark.parametrize("profile", PROFILES)
def test_profiles(profile: str) -> None:
    rules = shared(profile=profile)
    offered = set(decide(rules, ASKED, TOOLS).offered)
    assert offered == (set(TOOLS) if profile == "full" else set(PROFILES[profile]) & set(TOOLS))
    if profile == "minimal":
        assert one("exec", rules) == (1, "tools.profile", "profile minimal does not have it")


@pytest.mark.seed(281, 291)
def test_an_agents_profile_goes_before_the_shared_one_and_also_allow_extends_it() -> None:
    agent = Scope(lists("a", profile="minimal", also=["exec"]))
    rules = msgspec.structs.replace(shared(profile="full", also=["write"]), agents={"main": agent})
    assert decide(rules, ASKED, TOOLS).offered == ("exec", "session_status")
    assert decide(rules, ASKED._replace(agent="other"), TOOLS).offered == tuple(TOOLS)
    inherited = msgspec.structs.replace(
        shared(profile="minimal", also=["write"]), agents={"main": Scope(lists("a", also=["exec"]))}
    )
    assert set(decide(inherited, ASKED, TOOLS).offered) == {"session_status", "exec", "write", "apply_patch"}


@pytest.mark.seed(291)
def test_also_allow_without_an_allow_list_takes_nothing_away() -> None:
    assert decide(shared(also=["exec"]), ASKED, TOOLS).offered == tuple(TOOLS)
    assert decide(shared(allow=[], also=["exec"]), ASKED, TOOLS).offered == ("exec",)


@pytest.mark.seed(283, 285)
def test_the_models_own_entry_goes_before_its_providers() -> None:
    providers = {"Open-AI": lists("p", profile="minimal"), "openai/GPT-5": lists("m", deny=["exec"])}
    rules = shared(providers=providers)
    assert one("read", rules) is None and one("exec", rules) == (4, "m.deny", "m.deny names it")
    assert one("read", rules, ASKED._replace(model="gpt-4")) == (2, "p.profile", "profile minimal does not have it")
    assert one("read", rules, ASKED._replace(providers=("zai", "z.ai"))) is None


@pytest.mark.seed(283)
def test_another_spelling_of_a_provider_does_not_get_around_its_rules() -> None:
    rules = shared(providers={"z.ai": lists("p", deny=["exec"])})
    for names in (("zai", "z-ai"), ("Z-AI",), ("zhipu", "z.ai")):
        assert one("exec", rules, ASKED._replace(providers=names)) == (4, "p.deny", "p.deny names it")


def test_who_may_write_may_patch_unless_it_is_denied() -> None:
    assert decide(shared(allow=["write"]), ASKED, TOOLS).offered == ("apply_patch", "write")
    assert decide(shared(allow=["write"], deny=["apply-patch"]), ASKED, TOOLS).offered == ("write",)


@pytest.mark.parametrize("word", ["raed", "notes", "group:plugins", "zz*"])
def test_an_allow_list_without_any_tool_of_ours_is_passed_over_and_said_so(word: str) -> None:
    tools = {**TOOLS, "notes_add": tool("notes_add", origin="notes")}
    verdict = decide(shared(allow=[word]), ASKED, tools)
    assert verdict.offered == tuple(tools)
    assert verdict.notes == ("tools.allow names none of the built-in tools and is passed over",)
    assert decide(shared(allow=[word, "read"]), ASKED, TOOLS).offered == ("read",)


def test_a_known_tool_that_is_not_built_still_counts() -> None:
    assert decide(shared(allow=["browser"]), ASKED, {"read": TOOLS["read"]}).offered == ()


def test_unknown_names_do_not_open_the_sandbox_or_sub_agents() -> None:
    assert decide(Rules(subagents=lists("s", ["raed"])), ASKED._replace(depth=1), TOOLS).offered == ()


@pytest.mark.seed(288)
def test_chats_and_senders() -> None:
    everywhere, here = Place("telegram"), Place("telegram", chat="-5")
    chats = {
        everywhere: Chat(lists("all", ["read"])),
        here: Chat(
            lists("here", ["read", "exec"]), {"id:7": lists("seven", []), "name:Bob": lists("bob", deny=["exec"])}
        ),
    }
    rules = Rules(chats=chats)

    def offered(place: Place, asker: Asker) -> tuple[str, ...]:
        return decide(rules, ASKED._replace(place=place, asker=asker), TOOLS).offered

    assert offered(GROUP, Asker("1")) == ("exec", "read")
    assert offered(GROUP, Asker("7")) == ()
    assert offered(GROUP, Asker("1", "Bob")) == ("read",)
    assert offered(GROUP._replace(chat="-6"), Asker("7")) == ("read",)
    assert len(offered(GROUP._replace(direct=True), OWNER)) == len(TOOLS)
    assert len(offered(Place("discord", chat="-5"), OWNER)) == len(TOOLS)


def test_a_name_that_anybody_can_take_gives_no_tool() -> None:
    chats = {Place("telegram"): Chat(lists("all", ["read"]), {"name:boss": lists("boss", ["exec", "read"])})}
    asked = ASKED._replace(place=GROUP, asker=Asker("1", "boss"))
    assert decide(Rules(chats=chats), asked, TOOLS).offered == ("read",)


def test_where_rules_of_a_chat_may_stand() -> None:
    found = [tuple(p)[1:4] for p in places(Place("d", "acc", "g", "c"))]
    assert found == [
        ("acc", "g", "c"), ("acc", "", "c"), ("acc", "g", "*"), ("acc", "", "*"),
        ("", "g", "c"), ("", "", "c"), ("", "g", "*"), ("", "", "*"),
    ]  # fmt: skip
    assert not list(places(Place("d")))


@pytest.mark.seed(289)
def test_the_sandbox() -> None:
    asked = ASKED._replace(sandboxed=True)
    default = decide(Rules(), asked, TOOLS).offered
    assert {"exec", "read", "grep", "image", "session_status"} <= set(default)
    assert not {"browser", "cron", "gateway", "nodes", "canvas", "web_fetch", "memory_search"} & set(default)

    def offered(shared: Lists | None, agent: Lists | None = None) -> set[str]:
        rules = Rules(Scope(Lists("t"), sandbox=shared), {"main": Scope(Lists("a"), sandbox=agent)})
        return set(decide(rules, asked, TOOLS).offered)

    assert offered(lists("s", also=["cron"])) == {*default, "cron"}
    assert offered(lists("s", [])) == set(TOOLS) - {"browser", "canvas", "nodes", "cron", "gateway"}
    assert offered(lists("s", ["read", "cron"])) == {"read", "cron", "image"}
    assert offered(lists("s", ["*"])) == set(TOOLS) - {"browser", "canvas", "nodes", "cron", "gateway"}
    assert offered(lists("s", ["read"], deny=["image"])) == {"read"}
    assert offered(lists("s", ["read"]), lists("a", deny=["image"])) == {"read"}
    assert offered(lists("s", ["read"], also=[]), lists("a", also=["edit"])) == {"read", "image", "edit"}


@pytest.mark.seed(289)
def test_sub_agents() -> None:
    def offered(depth: int, deepest: int, config: Lists = Lists("s")) -> set[str]:
        rules = Rules(subagents=config, deepest={"main": deepest})
        return set(decide(rules, ASKED._replace(depth=depth), TOOLS).offered)

    everyone = {"gateway", "agents_list", "cron", "memory_search", "memory_get", "sessions_send"}
    assert set(TOOLS) - offered(1, 2) == everyone
    assert set(TOOLS) - offered(1, 1) == everyone | {"sessions_list", "sessions_history", "sessions_spawn"}
    assert "memory_get" in offered(1, 1, lists("s", also=["group:memory"]))
    assert "memory_get" not in offered(1, 1, lists("s", also=["*"]))
    assert offered(1, 1, lists("s", ["read", "cron"])) == {"read", "cron"}
    assert offered(1, 1, lists("s", deny=["*"])) == set()


def test_a_sub_agent_never_has_more_than_its_parent() -> None:
    asked = ASKED._replace(depth=1, inherited=lists("the parent's", ["read", "exec"], ["exec"]))
    verdict = decide(Rules(), asked, TOOLS)
    assert verdict.offered == ("read",)
    assert [c.words for c in verdict.traces["write"].changes] == ["allow it in the session that started this one"]


@pytest.mark.seed(277)
def test_tools_for_the_owner_only() -> None:
    tools = {**TOOLS, "whatsapp_login": tool("whatsapp_login", owner=True)}
    stranger = ASKED._replace(asker=Asker("you"))
    assert set(tools) - set(decide(Rules(), stranger, tools).offered) == {"cron", "gateway", "nodes", "whatsapp_login"}
    assert decide(Rules(), ASKED, tools).offered == tuple(tools)
    (change,) = decide(Rules(), stranger, tools).traces["gateway"].changes
    assert change.key == "" and "owner" in change.words


@pytest.mark.seed(279)
def test_apply_patch_has_a_gate_of_its_own() -> None:
    assert one("apply_patch", Rules()) is None
    assert one("apply_patch", Rules(patch=Patch(enabled=False))) == (
        0, "tools.exec.applyPatch.enabled", "tools.exec.applyPatch.enabled is false",
    )  # fmt: skip
    claude = ASKED._replace(providers=("anthropic",), model="claude-x")
    assert one("apply_patch", Rules(), claude) is not None
    for name in ("claude-x", "anthropic/claude-x", "ANTHROPIC/Claude-X", "*"):
        assert one("apply_patch", Rules(patch=Patch(models=(name,))), claude) is None
    assert not patched(("gpt-4",), ("openai",), "gpt-5") and patched((), ("openai",), "gpt-5")


def test_the_model_and_the_session_have_a_say() -> None:
    assert one("read", Rules(), ASKED._replace(callable=False)) == (0, "", "the model cannot call tools")
    small = ASKED._replace(narrow=("read", "exec"), exec_denied=True)
    verdict = decide(Rules(narrowed={"openai/gpt-5": "models.x"}), small, TOOLS)
    assert verdict.offered == ("read",)
    assert verdict.traces["exec"].changes[0].words == "say /exec security=full"
    (change,) = verdict.traces["write"].changes
    assert (change.key, change.value) == ("models.x", ["read", "exec", "write"])


def test_changes_are_said_once_and_name_all_that_stands_in_the_way() -> None:
    rules = shared(profile="minimal", allow=[], deny=["group:runtime"])
    changes = decide(rules, ASKED, TOOLS).traces["exec"].changes
    assert [(c.key, c.value) for c in changes] == [
        ("tools.alsoAllow", ["exec"]),
        ("tools.deny", ["process", "code_execution"]),
    ]
    named = shared(profile="minimal", allow=["read"])
    assert [(c.key, c.value) for c in decide(named, ASKED, TOOLS).traces["exec"].changes] == [
        ("tools.profile", "coding"),
        ("tools.allow", ["read", "exec"]),
    ]


def test_hidden_says_who() -> None:
    verdict: Verdict = decide(shared(deny=["read"]), ASKED, {"read": TOOLS["read"], "grep": TOOLS["grep"]})
    assert verdict.hidden == {
        "read": "tools.deny names it (layer 3)",
        "grep": "tools.deny has read, which takes it away (layer 3)",
    }
