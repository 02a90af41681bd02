"""A whole message as people get it."""

from __future__ import annotations

from palinurus.core.stream.answer import answer, spoken
from palinurus.core.types.messages import Assistant, Text, ToolResult, User


def test_everything_at_once() -> None:
    said = answer("<think>why</think>\n[[reply_to:7]] Here. [[audio_as_voice]] NO_REPLY")
    assert (said.text, said.thinking, said.silent) == ("Here.", "why", False)
    assert (said.found.reply_to, said.found.voice) == ("7", True)


def test_reasoning_and_the_token_are_a_silence() -> None:
    assert answer("<think>nothing to say</think>NO_REPLY").silent
    assert answer("[[media:https://a.org/x]] NO_REPLY").found.media == ("https://a.org/x",)


def test_a_run() -> None:
    def say(text: str) -> Assistant:
        return Assistant((Text(text),))

    result = ToolResult("1", "a", (Text("not this"),))
    assert spoken([User("hi"), say("<think>x</think>One."), result, say(" "), say("Two.")]) == "One.\n\nTwo."
    assert spoken([say("One."), say("NO_REPLY")]) == ""
    assert spoken([say("a <final>b</final>")], enforce=True) == "b"
