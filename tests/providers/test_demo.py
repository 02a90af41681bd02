"""The scripted model: honest, deterministic, and it really works with tools."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.abort import Abort
from palinurus.core.types.messages import AssistantMessage, Message, TextBlock, ToolCall, ToolResult, UserMessage
from palinurus.core.types.model import CallStart, StreamDone, StreamFailed, TextDelta
from palinurus.core.types.tool import ToolSpec
from palinurus.providers.catalog import Catalog
from palinurus.providers.demo import DemoModel, decide_message
from providers.kit import agent, request, settings

ALL = ("ls", "read", "write", "edit", "exec")


def specs(*names: str) -> tuple[ToolSpec, ...]:
    return tuple(ToolSpec(n, n, {"type": "object"}) for n in names)


def said(text: str, *tools: str) -> AssistantMessage:
    return decide_message(request(UserMessage(text), tools=specs(*(tools or ALL))))


class Folder:
    """The tools, as far as the demo uses them, on a real directory."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def call(self, call: ToolCall) -> ToolResult:
        args = call.arguments
        try:
            text = getattr(self, call.name)(**args)
            return ToolResult(call.id, call.name, (TextBlock(text),))
        except OSError as error:
            return ToolResult(call.id, call.name, (TextBlock(str(error.strerror)),), isError=True)

    def ls(self, path: str) -> str:
        return "\n".join(sorted(p.name for p in (self.path / path).iterdir()))

    def read(self, path: str) -> str:
        return (self.path / path).read_text()

    def write(self, path: str, content: str) -> str:
        (self.path / path).write_text(content)
        return "ok"

    def exec(self, command: str) -> str:
        words = shlex.split(command)
        if words[0] == "printf":
            with open(self.path / words[-1], "a" if words[-2] == ">>" else "w") as file:
                file.write(words[2] + "\n")
            return ""
        return f"ran {command}"


def talk(folder: Folder, messages: list[Message], text: str, *tools: str) -> str:
    """One turn of the loop: until there are no more calls."""
    messages.append(UserMessage(text))
    for _ in range(5):
        reply = decide_message(request(*messages, tools=specs(*(tools or ALL))))
        messages.append(reply)
        if not reply.calls:
            return reply.text
        messages += [folder.call(c) for c in reply.calls]
    raise AssertionError("it does not end")


@pytest.mark.parametrize("tools", [ALL, ("exec",), ("ls", "read", "write")], ids=["all", "exec", "files"])
def test_remember_and_recall(tools: tuple[str, ...], tmp_path: Path) -> None:
    folder, messages = Folder(tmp_path), list[Message]()
    assert "MEMORY.md" in talk(folder, messages, "Remember that my cat's name is 'Tom; rm -rf'.", *tools)
    assert "MEMORY.md" in talk(folder, messages, "please remember: tea, not coffee", *tools)
    assert (tmp_path / "MEMORY.md").read_text() == "- my cat's name is 'Tom; rm -rf'\n- tea, not coffee\n"
    if tools != ("exec",):
        assert "tea, not coffee" in talk(folder, messages, "recall", *tools)
        answer = talk(folder, messages, "What do you remember about my cat?", *tools)
        assert "Tom" in answer and "tea" not in answer
        assert "nothing about" in talk(folder, messages, "recall bananas", *tools)


def test_what_the_gate_undid_is_not_told_as_done() -> None:
    messages: list[Message] = [UserMessage("remember that I like tea")]
    asked = decide_message(request(*messages, tools=specs("exec", "read")))
    undone = "[Undone: MEMORY.md. Commands do not change these files.]"
    messages += [asked, ToolResult(asked.calls[0].id, "exec", (TextBlock(undone),))]
    said = decide_message(request(*messages, tools=specs("exec", "read"))).text
    assert "did not stay" in said and undone in said and "wrote" not in said


def test_files_and_commands(tmp_path: Path) -> None:
    folder, messages = Folder(tmp_path), list[Message]()
    assert "nothing" in talk(folder, messages, "list files")
    assert "notes.txt" in talk(folder, messages, "Create a file notes.txt with the text: hello there")
    assert (tmp_path / "notes.txt").read_text() == "hello there\n"
    assert "hello there" in talk(folder, messages, "read notes.txt")
    assert "notes.txt" in talk(folder, messages, "what files are here?")
    assert "ran echo hi" in talk(folder, messages, "run echo hi")
    assert "No such file" in talk(folder, messages, "read missing.txt")
    assert "did not work" in talk(folder, messages, "write no/such/place.txt with x")
    assert 'say "hi"' in talk(folder, messages, "write 'say \"hi\"' to quote.txt")


@pytest.mark.parametrize(
    ("text", "tool", "args"),
    [
        ("System: The owner has undone a file.\n\nread a.txt", "read", {"path": "a.txt"}),
        ("list files", "ls", {"path": "."}),
        ("Please list the files.", "ls", {"path": "."}),
        ("ls src", "ls", {"path": "src"}),
        ("list the files in docs", "ls", {"path": "docs"}),
        ("show me the file a.txt", "read", {"path": "a.txt"}),
        ("read a.txt.", "read", {"path": "a.txt"}),
        ('cat "my file.txt"', "read", {"path": "my file.txt"}),
        ("what's in a.txt?", "read", {"path": "a.txt"}),
        ("[Thu 2026-01-01 10:00 UTC] read a.txt", "read", {"path": "a.txt"}),
        ("write a.txt: one\ntwo", "write", {"path": "a.txt", "content": "one\ntwo\n"}),
        ("make a new file called b.md containing 'x y'", "write", {"path": "b.md", "content": "x y\n"}),
        ("run `uname -a`", "exec", {"command": "uname -a"}),
        ("$ ls | wc -l", "exec", {"command": "ls | wc -l"}),
    ],
)
def test_understood(text: str, tool: str, args: dict[str, Any]) -> None:
    (call,) = said(text).calls
    assert (call.name, call.arguments) == (tool, args)


@pytest.mark.parametrize("text", ["hello", "Hi there!", "who are you?", "help", "Write me a sonnet about lobsters", ""])
def test_it_says_what_it_is_and_how_to_get_a_real_one(text: str) -> None:
    reply = said(text)
    assert not reply.calls and reply.stopReason == "stop"
    assert "script, not a language model" in reply.text
    assert "ANTHROPIC_API_KEY" in reply.text and "pal setup" in reply.text


@pytest.mark.parametrize("text", ["list files", "read a", "write a with b", "run ls", "remember x", "recall"])
def test_only_tools_on_offer_are_called(text: str) -> None:
    reply = decide_message(request(UserMessage(text), tools=()))
    assert not reply.calls and "not given" in reply.text
    for name in ALL:
        assert {c.name for c in said(text, name).calls} <= {name}


@given(st.text(max_size=60))
def test_any_text_is_answered_the_same_way_twice(text: str) -> None:
    asked = request(UserMessage(text), tools=specs(*ALL))
    assert decide_message(asked) == decide_message(asked)
    reply = decide_message(asked)
    assert reply.text or reply.calls


async def test_stream_comes_in_words_and_adds_up() -> None:
    asked = request(UserMessage("hello"), model=Catalog(settings(), {}).default(agent()))
    events = [e async for e in DemoModel().stream(asked, Abort())]
    words = [e.text for e in events if isinstance(e, TextDelta)]
    last = events[-1]
    assert isinstance(last, StreamDone) and len(words) > 10 and "".join(words) == last.message.text
    assert last.message.usage.cost is not None and last.message.usage.cost.total == 0
    events = [
        e
        async for e in DemoModel().stream(
            msgspec.structs.replace(asked, messages=(UserMessage("ls"),), tools=specs("ls")), Abort()
        )
    ]
    assert isinstance(events[0], CallStart) and isinstance(events[-1], StreamDone)


async def test_stop() -> None:
    stop = Abort()
    events = []
    async for event in DemoModel().stream(request(UserMessage("hello")), stop):
        events.append(event)
        if len(events) == 3:
            stop.set("user")
    last = events[-1]
    assert isinstance(last, StreamFailed) and last.failure.kind == "aborted" and last.failure.partial
    assert last.message.text == "".join(e.text for e in events if isinstance(e, TextDelta)) and len(events) == 4
