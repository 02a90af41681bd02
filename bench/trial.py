"""Thirty plain requests to a model that runs on this machine: which of them are done. `make local`.

    python bench/trial.py [--model local/qwen2.5-coder-1.5b] [--calls json|text] [--only NAME,…] [--home DIR]

Each task begins in an empty workspace with a few files; what counts is what stands there afterwards, and what was
answered. Nothing is asked of anybody: a task that would need leave has failed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from palinurus import Agent, AgentAnswer
from palinurus.core.types.events import MessageEnd, MessageStart, MessageUpdate
from palinurus.core.types.messages import AssistantMessage

LIST = {"shopping.txt": "milk\neggs\nbread\n", "todo.md": "- call Ann\n- pay rent\n"}
CODE = {"app.py": "def add(a, b):\n    return a - b\n", "README.md": "# Calculator\nAdds two numbers.\n"}
LOGS = {"a.log": "ok\nok\n", "b.log": "ok\nERROR disk full\nok\n", "c.log": "ok\n"}
NOTE = {
    "meeting.txt": "Meeting on Monday.\nPresent: Ann, Bob.\n"
    "Decided: the launch moves to 12 May. Bob writes the letter.\n"
}


class Task(NamedTuple):
    name: str
    asks: tuple[str, ...]  # one after the other, in one session
    done: Callable[[Path, str], bool]  # (workspace, the last answer) -> was it done?
    files: Mapping[str, str] = MappingProxyType({})


def says(*words: str) -> Callable[[Path, str], bool]:
    return lambda at, said: all(word.lower() in said.lower() for word in words)


def holds(name: str, *words: str, without: tuple[str, ...] = ()) -> Callable[[Path, str], bool]:
    def look(at: Path, said: str) -> bool:
        text = (at / name).read_text() if (at / name).is_file() else ""
        return bool(text) and all(w in text for w in words) and not any(w in text for w in without)

    return look


TASKS = (
    Task("hello", ("Say hello in five words.",), lambda at, said: "hello" in said.lower()),
    Task("french", ("How do you say 'good morning' in French?",), says("bonjour")),
    Task("sum", ("What is 17 times 23?",), says("391")),
    Task("capital", ("What is the capital of Italy?",), says("rome")),
    Task("list", ("Which files are in the workspace?",), says("shopping.txt", "todo.md"), LIST),
    Task("count", ("How many files are in the workspace? Name them.",), says("a.log", "b.log", "c.log"), LOGS),
    Task("read", ("What is in shopping.txt?",), says("milk", "eggs", "bread"), LIST),
    Task("read2", ("What do I have to do, according to todo.md?",), says("ann", "rent"), LIST),
    Task("write", ("Write a file todo.txt with the line: buy milk",), holds("todo.txt", "buy milk")),
    Task("write2", ("Create notes.md with the heading '# Notes'.",), holds("notes.md", "# Notes")),
    Task("folder", ("Create a folder named reports.",), lambda at, said: (at / "reports").is_dir()),
    Task(
        "edit",
        ("In shopping.txt change eggs to tofu.",),
        holds("shopping.txt", "milk", "tofu", "bread", without=("eggs",)),
        LIST,
    ),
    Task("edit2", ("In todo.md replace Ann with Carla.",), holds("todo.md", "Carla", "rent", without=("Ann",)), LIST),
    Task(
        "append",
        ("Add butter to the end of shopping.txt, and keep the rest.",),
        holds("shopping.txt", "milk", "eggs", "bread", "butter"),
        LIST,
    ),
    Task("delete", ("Delete the file todo.md.",), lambda at, said: not (at / "todo.md").exists(), LIST),
    Task(
        "rename",
        ("Rename todo.md to tasks.md.",),
        lambda at, said: (at / "tasks.md").exists() and not (at / "todo.md").exists(),
        LIST,
    ),
    Task("copy", ("Copy shopping.txt to backup.txt.",), holds("backup.txt", "milk", "bread"), LIST),
    Task("find", ("Which file mentions the word ERROR?",), says("b.log"), LOGS),
    Task("find2", ("In which file is the word rent?",), says("todo.md"), LIST),
    Task("what", ("What does the ERROR in b.log say?",), says("disk full"), LOGS),
    Task("version", ("Run python3 --version and tell me what it says.",), says("3.")),
    Task("lines", ("How many lines has shopping.txt?",), lambda at, said: "3" in said or "three" in said.lower(), LIST),
    Task("exec", ("Run the command: echo hello > out.txt",), holds("out.txt", "hello")),
    Task("date", ("Which year is it? Use the date command.",), says(time.strftime("%Y"))),
    Task(
        "summary",
        ("When is the launch, according to meeting.txt?",),
        lambda at, said: "12 may" in said.lower() or "may 12" in said.lower(),
        NOTE,
    ),
    Task("who", ("Who writes the letter, according to meeting.txt?",), says("bob"), NOTE),
    Task("script", ("Write hi.py that prints hi, then run it.",), holds("hi.py", "print")),
    Task("fix", ("add in app.py subtracts. Change it so that it adds.",), holds("app.py", "a + b"), CODE),
    Task("memory", ("My favourite colour is teal. Just say ok.", "What is my favourite colour?"), says("teal")),
    Task(
        "two",
        ("Write a.txt with the word one.", "What is in a.txt?"),
        lambda at, said: holds("a.txt", "one")(at, said) and "one" in said.lower(),
    ),
)


class Times:
    """Of every model call: seconds until its first token (what is told while it reads ends there), and per token."""

    def __init__(self) -> None:
        self.first: list[float] = []
        self.token: list[float] = []
        self._began = self._read = 0.0

    def hear(self, event: object) -> None:
        now = time.monotonic()
        if isinstance(event, MessageStart) and event.message is None:
            self._began = self._read = now
        elif isinstance(event, MessageUpdate) and event.kind == "status":
            self._read = now
        elif isinstance(event, MessageEnd) and isinstance(event.message, AssistantMessage):
            self.first.append(self._read - self._began)
            self.token.append((now - self._read) / max(1, event.message.usage.output))


async def play(agent: Agent, task: Task, workspace: Path, times: Times) -> tuple[bool, float, str]:
    shutil.rmtree(workspace, ignore_errors=True)
    workspace.mkdir(parents=True)
    for name, text in task.files.items():
        (workspace / name).write_text(text)
    start, said, session = time.monotonic(), "", f"{task.name}-{time.time_ns()}"
    for ask in task.asks:
        async for event in agent.stream(ask, session=session):
            times.hear(event)
            if isinstance(event, AgentAnswer):
                said = event.text or f"({event.outcome})"
    return task.done(workspace, said), time.monotonic() - start, said


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="local/qwen2.5-coder-1.5b")
    parser.add_argument("--calls", default="", help="the form of calls instead of the model's own: json, text, native")
    parser.add_argument("--only", default="")
    parser.add_argument("--home", default=os.path.expanduser("~/.palinurus"), help="where `pal models pull` put it")
    options = parser.parse_args()
    provider, _, model = options.model.partition("/")
    config: dict[str, Any] = {"agents": {"defaults": {"skipBootstrap": True}}}
    if options.calls:
        row = {"id": model, "name": model, "compat": {"calls": options.calls}}
        config["models"] = {"providers": {provider: {"models": [row]}}}
    chosen = [task for task in TASKS if not options.only or task.name in options.only.split(",")]
    took: list[float] = []
    times, good = Times(), 0
    async with Agent(options.model, home=options.home, config=config) as agent:
        for task in chosen:
            done, seconds, said = await play(agent, task, Path(options.home) / "workspace", times)
            good, took = good + done, [*took, seconds]
            print(f"{'done  ' if done else 'NOT   '} {seconds:6.1f} s  {task.name:8} {said[:110]!r}", flush=True)
    print(f"{good} of {len(chosen)} done with {options.model}, {statistics.median(took):.1f} s in the middle")
    first, token = statistics.median(times.first), statistics.median(times.token)
    load = os.getloadavg()[2] if hasattr(os, "getloadavg") else 0.0
    print(f"{len(times.first)} calls: first token after {first:.1f} s, {token:.2f} s a token (load {load:.0f})")
    return 0 if good * 3 >= len(chosen) * 2 else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
