"""What programs report, as events and messages; also when what they report is nonsense."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from agent.runtimes.kit import KIT
from palinurus.agent.runtimes.bridge import ApprovalBridge
from palinurus.agent.runtimes.claude import ClaudeTalk
from palinurus.agent.runtimes.codex import CodexTalk
from palinurus.agent.runtimes.drive import TalkSetting
from palinurus.agent.runtimes.items import TOOLS
from palinurus.agent.runtimes.mirror import RunMirror
from palinurus.core.types.events import AgentEnd, MessageEnd, MessageUpdate
from palinurus.core.types.messages import AssistantMessage, ToolResult, UserMessage
from palinurus.core.types.model import ModelFailure
from palinurus.core.types.usage import TokenUsage
from palinurus.testing.model import ScriptedModel
from support import Notes, kinds, plan, ports


def mirror(notes: Notes | None = None) -> RunMirror:
    return RunMirror(plan(), ports(ScriptedModel([]), notes), "test")


def test_two_texts_and_the_end_are_one_message() -> None:
    notes = Notes()
    made = mirror(notes)
    events = [*made.delta("One"), *made.complete_text("One."), *made.complete_text("Two."), *made.finish("stop", None)]
    assert kinds(events) == ["message_start", *["message_update"] * 4, "message_end", "agent_end"]
    assert "".join(e.delta for e in events if isinstance(e, MessageUpdate)) == "One.\n\nTwo."
    assert [m.text for m in notes.messages] == ["One.\n\nTwo."]


def test_a_text_is_no_message_before_it_is_known_what_follows() -> None:
    """Else a run that is cut off here would look answered."""
    notes = Notes()
    made = mirror(notes)
    made.complete_text("I look.")
    assert notes.messages == []
    made.start_tool("1", "exec", {"command": "ls"})
    (said,) = notes.messages
    assert isinstance(said, AssistantMessage) and said.text == "I look." and said.calls[0].name == "exec"


def test_every_message_leaves_a_card_and_what_is_told_late_one_more() -> None:
    """What the ledger gets is what the program said it used, to the last token."""
    notes = Notes()
    made = mirror(notes)
    made.add_usage(TokenUsage(100, 1))
    made.start_tool("1", "exec", {})
    made.end_tool("1", "x", error=False)
    made.add_usage(TokenUsage(200, 2))
    made.add_usage(TokenUsage(50, 5))
    made.complete_text("Done.")
    made.finish("stop", None)
    assert [(card.number, card.input, card.output, card.purpose) for card in notes.cards] == [
        (1, 100, 1, ""),
        (2, 50, 5, ""),
        (0, 200, 2, "told late"),
    ]
    first = notes.cards[0]
    assert first.model == str(plan().model.ref) and first.model_why.endswith("asked by test")
    assert first.level == plan().choices[0].level.level and first.tools is None


def test_calls_left_open_get_a_result_that_says_so_and_usage_is_counted_once() -> None:
    made = mirror()
    made.begin()
    made.start_tool("1", "exec", {})
    assert made.start_tool("1", "exec", {}) == []
    made.add_usage(TokenUsage(100, 1))
    made.end_tool("1", "", error=False)
    assert made.end_tool("1", "again", error=False) == []
    made.start_tool("2", "exec", {})
    made.complete_text("part")
    made.add_usage(TokenUsage(200, 2))
    events = made.finish("error", ModelFailure("server", "gone"))
    last = events[-1]
    assert isinstance(last, AgentEnd) and last.usage == TokenUsage(300, 3)
    assert sum((m.usage for m in last.messages if isinstance(m, AssistantMessage)), TokenUsage()) == last.usage
    results = [m for m in last.messages if isinstance(m, ToolResult)]
    assert [(r.toolCallId, r.isError) for r in results] == [("1", False), ("2", True)]
    final = [m for m in last.messages if isinstance(m, AssistantMessage)][-1]
    assert (
        final.stopReason == "error" and final.usage == TokenUsage(200, 2) and isinstance(last.messages[0], UserMessage)
    )


def test_a_long_result_is_cut_and_where_it_came_from_is_kept() -> None:
    made = mirror()
    made.start_tool("1", "web", {})
    event = made.end_tool("1", "x" * 100_000, error=False, source="web")[-1]
    assert isinstance(event, MessageEnd) and isinstance(event.message, ToolResult)
    assert len(event.message.text) < 20_000 and event.message.source == "web"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
NAMES = ("item", "turn", "delta", "tokenUsage", "last", "id", "type", "status", "error", "message", "event", "changes")
MORE = ("content", "result", "arguments", "summary", "text", "tool_use_id", "usage", "input", "subtype", "errors")
BODY = st.dictionaries(st.sampled_from(NAMES + MORE), JSON, max_size=6)


def talks() -> tuple[CodexTalk, ClaudeTalk]:
    seen, made = ports(ScriptedModel([])), mirror()
    setting = TalkSetting(plan(), seen, made, ApprovalBridge(plan(), seen, lambda event: None, "x"), lambda item: None)
    return CodexTalk(setting, KIT), ClaudeTalk(setting, KIT)


@settings(max_examples=60, deadline=None)
@given(
    method=st.sampled_from(("item/started", "item/completed", "turn/completed", "thread/tokenUsage/updated")),
    kind=st.sampled_from(("assistant", "user", "result", "stream_event", "system")),
    sort=st.sampled_from((*TOOLS, "agentMessage", "reasoning", "contextCompaction", "other")),
    body=BODY,
    inner=BODY,
)
def test_nonsense_raises_nothing(method: str, kind: str, sort: str, body: Any, inner: Any) -> None:
    async def hear() -> None:
        codex, claude = talks()
        codex.hear({"method": method, "params": {**body, "threadId": "", "item": {**inner, "type": sort}}})
        codex.hear({"method": method, "params": {**body, "threadId": ""}})
        claude.hear({**body, "type": kind})
        block = {**inner, "type": "tool_result"}
        claude.hear(
            {**body, "type": kind, "message": {**inner, "content": [inner, block, {**inner, "type": "tool_use"}]}}
        )

    asyncio.run(hear())
