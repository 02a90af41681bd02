"""Which workspace file another program gets where."""

from __future__ import annotations

import pytest

from palinurus.agent.runtimes.brief import BEAT, EARLIER, ProgramBrief, render_history, write_brief
from palinurus.agent.runtimes.programs import PROGRAM_KINDS
from palinurus.core.prompt.facts import FileFact
from palinurus.core.types.messages import AssistantMessage, TextBlock, ToolResult, UserMessage

NAMES = ("AGENTS", "SOUL", "IDENTITY", "TOOLS", "USER", "BOOTSTRAP", "MEMORY", "HEARTBEAT")
FILES = tuple(FileFact(f"{name}.md", f"says {name.lower()}") for name in NAMES)
CODEX = PROGRAM_KINDS["codex"].finds


def places(told: ProgramBrief) -> dict[str, str]:
    words = {name: f"says {name.lower()}" for name in NAMES}
    return {
        name: "instructions" if text in told.instructions else "context" if text in told.context else ""
        for name, text in words.items()
    }


@pytest.mark.seed(239, 240, 241, 242)
def test_codex_gets_each_file_in_its_place() -> None:
    assert places(write_brief(FILES, CODEX, ["who"])) == {
        "AGENTS": "",
        "SOUL": "instructions",
        "IDENTITY": "instructions",
        "TOOLS": "instructions",
        "USER": "instructions",
        "BOOTSTRAP": "context",
        "MEMORY": "context",
        "HEARTBEAT": "",
    }


@pytest.mark.seed(241)
def test_only_a_heartbeat_turn_points_at_the_heartbeat_file_and_only_if_there_is_one() -> None:
    assert BEAT not in write_brief(FILES, CODEX, []).context
    assert BEAT in write_brief(FILES, CODEX, [], beat=True).context
    assert BEAT not in write_brief(FILES[:-1], CODEX, [], beat=True).context


def test_a_program_that_does_not_find_agents_md_is_given_it() -> None:
    assert places(write_brief(FILES, PROGRAM_KINDS["claude-cli"].finds, []))["AGENTS"] == "instructions"


def test_missing_files_are_not_mentioned_and_files_of_hooks_go_along() -> None:
    told = write_brief(
        (FileFact("SOUL.md", "expected there", missing=True), FileFact("NOTES.md", "mine")), CODEX, ["who"]
    )
    assert told.instructions == "who" and "mine" in told.context
    assert write_brief((), CODEX, ["who"]) == ProgramBrief("who", "")


def test_what_was_said_before_is_told_without_tools_and_within_bounds() -> None:
    history = (
        UserMessage("a"),
        AssistantMessage((TextBlock("b"),)),
        ToolResult("1", "exec", (TextBlock("secret"),)),
        UserMessage("x" * 2 * EARLIER),
    )
    text = render_history(history)
    assert "secret" not in text and EARLIER < len(text) < EARLIER + 100
    assert "User: a\n\nYou: b" in render_history(history[:3]) and render_history(()) == ""
