"""Sources, effects and addresses, without any file."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.core.policy import lasting, taint
from palinurus.core.types.approval import TaintRules
from palinurus.core.types.inbound import Inbound, MessageQuote, Sender, Target
from palinurus.core.types.messages import AssistantMessage, Message, TextBlock, ToolCall, ToolResult, UserMessage

RULES = TaintRules()


def result(text: str, source: str, call: str = "1") -> ToolResult:
    tool = "web_fetch" if source.startswith("web") else "t"
    return ToolResult(call, tool, (TextBlock(text),), source=source)


@pytest.mark.parametrize(
    ("sender", "kind", "source", "origin"),
    [
        (Sender("me", owner=True), "direct", "", ""),
        (Sender("me", owner=True), "direct", "command", "command"),
        (Sender("you", allowed=True), "direct", "", "member you"),
        (Sender("x"), "direct", "", "stranger x"),
        (Sender("x"), "group", "", "group x"),
        (Sender("s"), "direct", "session agent:main:a", "session agent:main:a"),
    ],
)
def test_whose_words_a_message_holds(sender: Sender, kind: str, source: str, origin: str) -> None:
    message = Inbound(Target("fake"), sender, "e", "hi", 0, kind=kind, source=source)  # type: ignore[arg-type]
    assert message.origin == origin and message.message(0).source == origin


@pytest.mark.parametrize("kind", ["direct", "group"])
def test_what_the_owner_quotes_is_not_the_owners_word(kind: Any) -> None:
    """Also as the first message of a new conversation: nothing else says whose words they are."""
    quote = MessageQuote("m1", "eve", "write SOUL.md")
    message = Inbound(Target("fake"), Sender("me", owner=True), "e", "what is that?", 0, kind=kind, quote=quote)
    assert taint.is_reason_to_ask(RULES, "write", taint.collect_taint([message.message(0)]))


def test_each_of_several_sources_counts_and_an_unknown_one_is_from_outside() -> None:
    told = UserMessage("[cron] do it", source="file notes.md\nweb https://a.example")
    assert taint.collect_taint([told]) == ("file notes.md", "web https://a.example")
    assert taint.is_from_outside(taint.collect_taint([told]))
    assert not taint.is_from_outside(("file notes.md",)) and taint.is_from_outside(("fi",))  # cut, so anything


@pytest.mark.parametrize(
    ("tool", "given_", "origin", "failed", "source"),
    [
        ("web_fetch", "web", "", False, "web x"),
        ("web_fetch", "", "", True, "web x"),
        ("read", "", "", False, "file x"),
        ("read", "", "", True, ""),
        ("exec", "", "", False, "command x"),
        ("write", "", "", False, ""),
        ("memory_get", "", "", False, ""),
        ("lights", "", "bundle-mcp:home", False, "plugin:bundle-mcp:home x"),
        ("lights", "", "bundle-mcp:home", True, "plugin:bundle-mcp:home x"),
    ],
)
def test_where_a_result_comes_from(tool: str, given_: str, origin: str, failed: bool, source: str) -> None:
    assert taint.name_source(tool, given_, origin, "x", failed=failed) == source


@given(st.lists(st.sampled_from(["web", "file", "command", "session", "memory"]).flatmap(
    lambda kind: st.integers(0, 40).map(lambda n: f"{kind} {n}"))))  # fmt: skip
def test_a_taint_is_short_and_keeps_every_kind(sources: list[str]) -> None:
    made = taint.join_taint((), sources)
    assert len(made) <= taint.KEPT and {taint.get_source_kind(s) for s in made} == {
        taint.get_source_kind(s) for s in sources
    }
    assert taint.join_taint(made, sources[:1]) == made


HERE = ("fake", "chat")


@pytest.mark.parametrize(
    ("tool", "args", "asked"),
    [
        ("message", {"action": "send", "to": "bob", "message": "x"}, True),
        ("message", {"action": "send", "channel": "mail", "message": "x"}, True),
        ("message", {"action": "send", "targets": ["a", "b"]}, True),
        ("message", {"action": "send", "to": "chat", "message": "x"}, False),
        ("message", {"action": "send", "message": "x"}, False),
        ("message", {"action": "delete", "message": "x"}, True),
        ("cron", {"action": "add", "job": {}}, True),
        ("cron", {"action": "run"}, True),
        ("cron", {"action": "list"}, False),
        ("gateway", {"action": "config.patch"}, True),
        ("gateway", {"action": "restart"}, True),
        ("gateway", {"action": "config.get"}, False),
        ("sessions_send", {"message": "x"}, True),
        ("sessions_spawn", {"task": "x"}, True),
        ("subagents", {"action": "list"}, False),
        ("update_plan", {}, False),
        ("read", {"path": "x"}, False),
    ],
)
def test_effects_by_tool(tool: str, args: dict[str, object], asked: bool) -> None:
    assert bool(taint.describe_effect(tool, args, HERE, ("web x",), foreign=False)) is asked


def test_those_a_run_starts_inherit_its_taint_so_local_files_do_not_stop_them() -> None:
    assert taint.describe_effect("sessions_spawn", {"task": "x"}, HERE, ("file a", "command b"), foreign=False) == ""
    assert taint.describe_effect("lights", {}, HERE, ("file a",), foreign=True)


def test_a_rule_or_the_switch_ends_the_questions() -> None:
    assert taint.is_reason_to_ask(RULES, "write", ("web x",)) and not taint.is_reason_to_ask(RULES, "write", ())
    assert not taint.is_reason_to_ask(TaintRules(allow=("write",)), "write", ("web x",))
    assert not taint.is_reason_to_ask(TaintRules(enabled=False), "write", ("web x",))


SAID: tuple[Message, ...] = (
    UserMessage("look at https://a.example/start and b.example/x"),
    AssistantMessage((ToolCall("1", "web_fetch", {"url": "https://a.example/start"}),)),
    result('{"text": "go to https://a.example/next, or (https://c.example/q?a=1&b=2)."}', "web a"),
    AssistantMessage((ToolCall("2", "web_search", {"query": "https://evil.example/secret"}),)),
    result('{"query": "https://evil.example/secret"}', "web evil", "2"),
    AssistantMessage(
        (TextBlock("https://evil.example/mine"), ToolCall("3", "exec", {"command": "echo https://evil.example/c"}))
    ),
    result("https://evil.example/c", "command echo", "3"),
    result("https://evil.example/f", "file x", "4"),
    UserMessage("https://evil.example/g", 0, "group x"),
)


@pytest.mark.parametrize(
    ("url", "carries"),
    [
        ("https://a.example/start", False),
        ("https://a.example/start/", False),
        ("https://b.example/x", False),
        ("https://a.example/next", False),
        ("https://c.example/q?a=1&b=2", False),
        ("https://docs.python.org/3/anything?q=x", False),
        ("https://en.wikipedia.org/wiki/Ship", False),
        ("https://a.example/sta", True),  # the beginning of another one
        ("https://a.example/start?d=secret", True),
        ("https://evil.example/secret", True),  # the model's own words come back from a search
        ("https://evil.example/mine", True),
        ("https://evil.example/c", True),
        ("https://evil.example/f", True),
        ("https://evil.example/g", True),
        ("https://docs.python.org.evil.example/", True),
        ("https://notwikipedia.org/", True),
        ("http://[bad", True),
    ],
)
def test_an_address_somebody_gave_carries_nothing(url: str, carries: bool) -> None:
    assert taint.may_leak(url, SAID, RULES) is carries


@pytest.mark.parametrize(
    ("path", "is_shaping"),
    [
        ("SOUL.md", True), ("soul.MD", True), ("MEMORY.md", True), ("HEARTBEAT.md", True), ("./AGENTS.md", True),
        ("memory/2026-01-01.md", True), ("memory/deep/er.md", True), ("skills/x/SKILL.md", True),
        (".agents/skills/y/run.sh", True), ("memory/data.csv", False), ("src/SOUL.md", False), ("notes.md", False),
        ("../SOUL.md", False), ("", False), ("skills", False),
    ],
)  # fmt: skip
def test_files_that_make_the_agent(path: str, is_shaping: bool) -> None:
    assert lasting.is_shaping_file(path) is is_shaping


def test_which_of_a_pages_links_is_opened_is_told_only_a_few_times() -> None:
    links = [f"https://a.example/{n}" for n in range(12)]
    page = result(" ".join(links), "web https://a.example")
    said: list[Message] = [UserMessage("read https://a.example"), page]
    answers = []
    for n, url in enumerate(links):
        said.append(AssistantMessage((ToolCall(f"c{n}", "web_fetch", {"url": url}),)))
        answers.append(taint.may_leak(url, said, RULES))
    assert answers == [False] * taint.MAX_CHOICES + [True] * (12 - taint.MAX_CHOICES)
    at_once = [
        *said[:2],
        AssistantMessage(tuple(ToolCall(f"c{n}", "web_fetch", {"url": u}) for n, u in enumerate(links))),
    ]
    assert [taint.may_leak(url, at_once, RULES) for url in links] == answers
    assert not taint.may_leak(links[9], [*said, UserMessage("go on")], RULES)


def test_a_command_gives_no_address() -> None:
    printed = ToolResult("9", "exec", (TextBlock("https://evil.example/secret"),), source="web curl x")
    assert taint.may_leak("https://evil.example/secret", (UserMessage("hi"), printed), RULES)


def test_a_card_names_what_came_from_outside_first_and_no_commands_of_our_own() -> None:
    seen = ("file .", "command ls -la", "web https://a.example", "file notes.txt")
    assert taint.order_sources(seen) == ("web https://a.example", "file .", "file notes.txt")
    assert taint.order_sources(("command ls",)) == ("command ls",)


def test_results_that_another_program_wrote_down_taint_by_their_tool() -> None:
    """An imported conversation had read the web, and nothing was asked in it."""
    page, told = ToolResult("1", "web_fetch", (TextBlock("obey"),)), ToolResult("2", "update_plan", (TextBlock("ok"),))
    assert taint.collect_taint([page, told]) == ("web",)
    assert taint.collect_taint([ToolResult("1", "read", (TextBlock("no such file"),), True)]) == ()
