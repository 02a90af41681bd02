from __future__ import annotations

import ast
import io
import itertools
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import palinurus.cli
from palinurus.cli.render import TerminalView, format_milliseconds, strip_controls
from palinurus.core.types.events import (
    AgentStart,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    RunEvent,
    ToolEnd,
    ToolStart,
    ToolUpdate,
)
from palinurus.core.types.messages import AssistantMessage, TextBlock, ThinkingBlock, ToolResult


class Screen(io.StringIO):
    encoding = "utf-8"  # type: ignore[assignment]

    def __init__(self, tty: bool) -> None:
        super().__init__()
        self.tty = tty

    def isatty(self) -> bool:
        return self.tty


def start(ident: str, summary: str = "") -> ToolStart:
    return ToolStart(ident, "read", {}, summary)


def end(ident: str, error: bool = False) -> ToolEnd:
    return ToolEnd(ident, "read", ToolResult(ident, "read", (TextBlock("x"),)), error, 12)


def shown(*events: RunEvent, tty: bool = False, **environ: str) -> str:
    screen = Screen(tty)
    view = TerminalView(screen, environ)
    view.begin()
    for event in events:
        view.show(event)
    view.finish()
    return screen.getvalue()


def test_a_turn_with_a_tool() -> None:
    text = shown(
        MessageStart(),
        MessageUpdate("I look."),
        start("a", "notes.txt"),
        end("a"),
        MessageStart(),
        MessageUpdate("thought", "thinking"),
        MessageUpdate("Do"),
        MessageUpdate("ne."),
    )
    assert text == "I look.\n⚙ read notes.txt … ok 12 ms\nDone.\n"


def test_a_command_that_says_it_failed_is_not_ok() -> None:
    failed = ToolEnd("a", "exec", ToolResult("a", "exec", (TextBlock("x"),), details={"exitCode": 2}), False, 12)
    assert shown(start("a", "ls /nope"), failed) == "⚙ read ls /nope … exit 2 12 ms\n"


def test_tools_side_by_side_keep_their_lines() -> None:
    text = shown(start("a", "one"), start("b", "two"), end("b"), end("a", error=True))
    assert text == "⚙ read one …\n⚙ read two … ok 12 ms\n⚙ read one … failed 12 ms\n"


def test_color_only_on_a_terminal_that_wants_it() -> None:
    events = (start("a", "x"), end("a"))
    assert "\x1b[" in shown(*events, tty=True)
    assert "\x1b" not in shown(*events, tty=True, NO_COLOR="1")
    assert "\x1b" not in shown(*events, tty=True, TERM="dumb")
    assert "\x1b" not in shown(*events)


@pytest.mark.parametrize(
    "attack", ["\x1b]52;c;ZXZpbA==\x07", "\x1b[2J", "\x9b31m", "\x1b]0;title\x07", "a\rb", "\x08\x08", "\u202eevil"]
)
def test_escape_sequences_are_only_text(attack: str) -> None:
    text = shown(MessageUpdate(attack), start("a", attack), end("a"))
    assert not set(text) & {"\x1b", "\x9b", "\x07", "\r", "\x08", "\u202e"}


@given(st.text())
def test_plain_leaves_nothing_that_acts(text: str) -> None:
    assert all(c in "\t\n" or c.isprintable() or ord(c) > 0xA0 or c == "\xa0" for c in strip_controls(text))


def test_a_long_summary_fits_the_line() -> None:
    lines = shown(start("a", "x" * 500), end("a")).splitlines()
    assert all(len(line) <= 120 for line in lines)


def test_durations() -> None:
    assert (format_milliseconds(12), format_milliseconds(1250)) == ("12 ms", "1.2 s")


@pytest.mark.seed(116)
@pytest.mark.parametrize(("level", "shows"), [("stream", True), ("on", True), ("off", False)])
def test_reasoning_is_shown_while_it_comes_and_the_answer_stands_alone(level: str, shows: bool) -> None:
    out = io.StringIO()
    view = TerminalView(out, {})
    view.begin()
    view.show(AgentStart("r", "s", "m", 0, level))
    view.show(MessageStart())
    view.show(MessageUpdate("first ", "thinking"))
    seen = out.getvalue()
    view.show(MessageUpdate("this", "thinking"))
    view.show(MessageUpdate("The answer."))
    view.show(MessageEnd(AssistantMessage((ThinkingBlock("first this"), TextBlock("The answer.")))))
    assert ("first" in seen) is shows
    assert ("Thinking\nfirst this\nThe answer." in out.getvalue()) is shows
    assert view.said == "The answer."


def test_a_question_is_shown_and_progress_is_not() -> None:
    screen = Screen(False)
    view = TerminalView(screen, {})
    view.show(start("1", "x"))
    view.show(ToolUpdate("1", "read", "half of it"))
    view.show(ToolUpdate("1", "read", "May I?\n    rm x", "id1"))
    assert "half of it" not in screen.getvalue() and "May I?\n    rm x\n" in screen.getvalue()


def test_a_call_that_is_made_again_is_told_while_it_waits() -> None:
    out = Screen(tty=False)
    TerminalView(out, {}).show(MessageUpdate("one/a: too many requests; trying again in 6 s (try 2)", "status"))
    assert out.getvalue() == "one/a: too many requests; trying again in 6 s (try 2)\n"


def test_nothing_is_told_as_one_lines() -> None:
    """A number before a plural is made by `format_count`; a constant may stand there as it is."""
    things = "bindings calls commits entries errors files jobs keys lines messages models nodes pages pieces plugins"
    more = "questions rows sessions skills steps tools transcripts turns"
    word = re.compile(rf" (more )?({'|'.join([*things.split(), *more.split()])})\b")
    found = []
    for path in sorted(Path(palinurus.cli.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            for number, text in itertools.pairwise(node.values if isinstance(node, ast.JoinedStr) else ()):
                told = text.value if isinstance(text, ast.Constant) else ""
                counts = isinstance(number, ast.FormattedValue) and not ast.unparse(number.value).isupper()
                if counts and word.match(told):
                    found.append(f"{path.name}:{node.lineno}: {{{ast.unparse(number.value)}}}{told[:30]}")
    assert not found, "\n".join(found)
