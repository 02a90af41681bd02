"""A whole message as people get it."""

from __future__ import annotations

from palinurus.core.stream.answer import collect_visible_text, read_answer
from palinurus.core.types.messages import AssistantMessage, TextBlock, ToolResult, UserMessage


def test_everything_at_once() -> None:
    said = read_answer("<think>why</think>\n[[reply_to:7]] Here. [[audio_as_voice]] NO_REPLY")
    assert (said.text, said.thinking, said.silent) == ("Here.", "why", False)
    assert (said.found.reply_to, said.found.voice) == ("7", True)


def test_reasoning_and_the_token_are_a_silence() -> None:
    assert read_answer("<think>nothing to say</think>NO_REPLY").silent
    assert read_answer("[[media:https://a.org/x]] NO_REPLY").found.media == ("https://a.org/x",)


def test_a_run() -> None:
    def say(text: str) -> AssistantMessage:
        return AssistantMessage((TextBlock(text),))

    result = ToolResult("1", "a", (TextBlock("not this"),))
    assert (
        collect_visible_text([UserMessage("hi"), say("<think>x</think>One."), result, say(" "), say("Two.")])
        == "One.\n\nTwo."
    )
    assert collect_visible_text([say("One."), say("NO_REPLY")]) == ""
    assert collect_visible_text([say("a <final>b</final>")]) == "b"
