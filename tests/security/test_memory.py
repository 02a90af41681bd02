"""The owner's memory is the owner's: a word in each file of it, looked for in all that others' sessions send and hear.

Every kind of session x who writes x prompt mode; the model of each turn tries every tool that could find a word.
"""

from __future__ import annotations

import asyncio
import atexit
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from flow.test_app import CONFIG, running, until
from palinurus.app import App
from palinurus.core.policy.audience import MEMORY_TOOLS
from palinurus.core.types.caller import SCOPES, WRITE, Caller
from palinurus.core.types.inbound import Inbound, Sender, Target, TurnOptions, make_sender
from palinurus.core.types.messages import ToolResult, UserMessage
from palinurus.core.types.model import ModelRequest
from palinurus.testing.channel import FakeChannel
from palinurus.testing.model import ScriptedModel, ScriptedTurn, call_tools, say
from palinurus.tools.sandbox.probe import detect_support

TODAY = f"memory/{datetime.now(UTC).date().isoformat()}.md"
MARKS = {"MEMORY.md": "markoflong", "USER.md": "markofuser", TODAY: "markofday", "memory/deep/old.md": "markofold"}
MARKS |= {"diary/extra.md": "markofextra"}
# What a command may try, one after the other in one shell.
TRIES = (
    "cat MEMORY.md USER.md memory/*.md memory/deep/*.md diary/*.md",
    "cat link/old.md",
    "grep -rh markof .",
    "(cd memory && cat */*; ln ../MEMORY.md ../open/x; cat ../open/x)",
    "git show HEAD:MEMORY.md",
)
MOVE = "mv MEMORY.md open/y; mv memory open/z; cat open/y open/z/*"
MEANS_NO_HARM = "ls && cat open/plain.txt && echo new > open/new.txt"


def commands(*lines: str) -> tuple[str, dict[str, Any]]:
    return "exec", {"command": "\n".join(lines)}


PROBES: list[tuple[str, dict[str, Any]]] = [
    ("memory_search", {"query": "lobster"}),
    ("session_search", {"query": "lobster"}),
    *(("memory_get", {"path": name}) for name in MARKS),
    *(("read", {"path": name}) for name in MARKS),
    ("read", {"path": "link/old.md"}),
    ("edit", {"path": "MEMORY.md", "oldText": "nothing of it", "newText": "x"}),
]
SEARCHES: list[tuple[str, dict[str, Any]]] = [  # each starts a process
    ("grep", {"pattern": "markof"}),
    ("grep", {"pattern": "markof", "path": "memory"}),
    ("find", {"pattern": "**/*.md"}),
    ("ls", {"path": "memory"}),
]
OWNER, MEMBER, FRIEND, STRANGER = "1", "2", "3", "666"
CHANNELS = {
    "fake": {"dmPolicy": "open", "allowFrom": ["*", MEMBER, FRIEND], "groups": {"*": {}}, "groupPolicy": "open"}
}
RULES: dict[str, Any] = {
    "channels": CHANNELS,
    "commands": {"ownerAllowFrom": [f"fake:{OWNER}"]},
    "memory": {"allowFrom": [f"fake:{FRIEND}", "fake:group:-77"]},
    # with all tools for everybody: what keeps the memory closed is not that others have none
    "tools": {"taint": {"enabled": False}, "exec": {"security": "full", "ask": "off"}, "trustFrom": ["fake:*"]},
}


class Prober(ScriptedModel):
    """Tries everything in each turn, then answers with a file of the memory attached."""

    def __init__(self) -> None:
        super().__init__([self._play], repeat=True)
        self.probes = [*PROBES, *SEARCHES, commands(*TRIES, MEANS_NO_HARM)]

    def _play(self, request: ModelRequest) -> ScriptedTurn:
        return self.play(request)

    def play(self, request: ModelRequest) -> ScriptedTurn:
        done = isinstance(request.messages[-1], ToolResult)
        return say(f"Done.\nMEDIA:{self.folder}/MEMORY.md\nMEDIA:{self.folder}/open/pic.md") if done else self.calls()

    def calls(self) -> ScriptedTurn:
        return call_tools(*self.probes)

    folder = ""


def furnish(home: Path) -> Path:
    return Path(shutil.copytree(_workspace(), home / "workspace", symlinks=True))


@cache
def _workspace() -> Path:
    """The one that others are copies of: a repository takes three commands."""
    folder = Path(tempfile.mkdtemp()) / "workspace"
    atexit.register(shutil.rmtree, folder.parent)
    for name, mark in MARKS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"The lobster is {mark}.\n")
    (folder / "AGENTS.md").write_text("Be kind.\n")
    (folder / "open").mkdir()
    (folder / "open" / "plain.txt").write_text("anybody may read this")
    (folder / "link").symlink_to("memory/deep")
    (folder / "open" / "pic.md").symlink_to("../MEMORY.md")
    git = ("git", "-c", "user.name=t", "-c", "user.email=t@t", "-C", str(folder))
    for words in (("init", "-q"), ("add", "."), ("commit", "-q", "-m", "all")):
        subprocess.run((*git, *words), check=True, capture_output=True)
    return folder


@asynccontextmanager
async def site(home: Path, model: Prober, channel: FakeChannel, contain: str, **more: Any) -> AsyncIterator[App]:
    """The memory is in place, the sandbox is of this kind."""
    model.folder = str(furnish(home))
    defaults = {**CONFIG["agents"]["defaults"], "sandbox": {"contain": contain}}
    defaults |= {"memorySearch": {"extraPaths": ["diary"]}, "heartbeat": {"every": "0m"}}
    async with running(home, model, channel, **{**RULES, "agents": {"defaults": defaults}, **more}) as app:
        yield app


def seen(requests: list[ModelRequest]) -> set[str]:
    """The files whose words are in what was sent to the model, results of tools included."""
    text = "".join(f"{r.prompt.text}{msgspec.json.encode(r.messages)!r}" for r in requests)
    return {name for name, mark in MARKS.items() if mark in text}


def message(who: str, **changes: Any) -> Inbound:
    fields: dict[str, Any] = {"target": Target("fake", who), "sender": Sender(who), "event": "", "text": "hi", "at": 0}
    return Inbound(**{**fields, **changes})


def member(**changes: Any) -> Inbound:
    return message(MEMBER, **{"sender": Sender(MEMBER, allowed=True), **changes})


def owner(**changes: Any) -> Inbound:
    return message(OWNER, **{"sender": Sender(OWNER, owner=True, allowed=True), **changes})


def system(who: str, session: str, owned: bool = True, **changes: Any) -> Inbound:
    fields = {"sender": Sender(who, owner=owned, allowed=True), "session": session, "system": True, "push": False}
    return message("x", **{**fields, **changes})


def turn(trigger: Any, mode: Any = None) -> TurnOptions:
    return TurnOptions(trigger=trigger, prompt_mode=mode)


GROUP = {"kind": "group", "target": Target("fake", "-100"), "mentioned": True}
PHONE = Caller("device:d", frozenset((WRITE,)), "device", device="d")
OPERATOR = Caller("owner", SCOPES, "token")
CLIENT = Sender("phone", allowed=True, scopes=("operator.read", "operator.write"))
ADMIN = Sender("page", owner=True, allowed=True, scopes=("operator.admin",))
WEB = {"target": Target("webchat"), "push": False}
OTHERS: dict[str, Inbound] = {
    "a member's chat": member(session="fake:direct:2"),
    "a stranger's chat": message(STRANGER, session="fake:direct:666"),
    "a member in the main session": member(session="main"),
    "a group, the owner writes": owner(**GROUP),
    "a group, a member writes": member(**GROUP),
    "a thread of a group": owner(**{**GROUP, "target": Target("fake", "-100", thread="7")}),
    "a channel": owner(**{**GROUP, "kind": "channel"}),
    "a group's session from the page": owner(sender=ADMIN, session="fake:group:-100", **WEB),
    "a member's session from the page": owner(sender=ADMIN, session="fake:direct:2", **WEB),
    "a client that may write": message("phone", sender=CLIENT, session="main", **WEB),
    "an HTTP caller that may chat": message(
        "o", sender=make_sender(PHONE), session="openai:u", target=Target("http"), push=False
    ),
    "a webhook's own session": system("hook:x", "hook:1", owned=False, options=turn("hook")),
    "a webhook's turn elsewhere": system("hook:x", "main", owned=False, options=turn("hook"), shared=True),
    "a job in a group's session": system("cron", "fake:group:-100", options=turn("cron")),
    "a job in a member's session": system("cron", "fake:direct:2", options=turn("cron")),
    "a heartbeat in a group's session": system("heartbeat", "fake:group:-100", options=turn("heartbeat")),
    "a sub-agent of a group's turn": system("1", "subagent:1", shared=True),
    "a letter from a group's session": system("agent:main:fake:group:-100", "main", owned=False, shared=True),
}
OWN: dict[str, Inbound] = {
    "the owner's chat": owner(),
    "the terminal": message("operator", sender=Sender("operator", owner=True), target=Target("terminal"), push=False),
    "the page": owner(sender=ADMIN, session="main", **WEB),
    "HTTP with the token": message(
        "o", sender=make_sender(OPERATOR), session="openai:u", target=Target("http"), push=False
    ),
    "a heartbeat": system("heartbeat", "main", options=turn("heartbeat")),
    "a wake-up with words from elsewhere": system("wake", "main", owned=False, source="web x", options=turn("wake")),
    "a webhook's wake-up": system("hook:x", "main", owned=False, source="webhook x", options=turn("hook")),
    "a friend's chat": message(FRIEND, sender=Sender(FRIEND, allowed=True), session="fake:direct:3"),
    "a named group": member(**{**GROUP, "target": Target("fake", "-77")}),
}
KINDS = [k for k in ("landlock", "bubblewrap", "off") if k == "off" or getattr(detect_support(), k)]


MODES: tuple[Any, ...] = ("full", "minimal", "none")


@pytest.mark.parametrize("contain", KINDS)
async def test_no_other_session_is_told_or_finds_a_word(tmp_path: Path, contain: str) -> None:
    """Every session in every prompt mode. What starts a process is tried in one mode of each session, in the next one
    under the next kind of containment: tools are not told the mode, and all three kinds together try all of them.
    Searches are not contained (a worker of their own): one kind tries them in each session, the others in some."""
    model, channel = Prober(), FakeChannel()
    held = contain != "off"  # else nothing holds commands: the owner is asked about each, see below
    commanding = [commands(*TRIES, MOVE, *TRIES, MEANS_NO_HARM)] if held else []
    async with site(tmp_path / "h", model, channel, contain) as app:
        for at, (name, asked) in enumerate(OTHERS.items()):
            for number, mode in enumerate(MODES):
                whole = (at + number + KINDS.index(contain)) % len(MODES) == 0
                searching = contain == KINDS[0] or at % 3 == KINDS.index(contain)
                model.probes = [*PROBES, *((*(SEARCHES if searching else ()), *commanding) if whole else ())]
                before = len(model.requests)
                options = msgspec.structs.replace(asked.options, prompt_mode=mode)
                told = msgspec.structs.replace(asked, options=options)
                row = await app.wait((await app.submit(told)).id)
                requests = model.requests[before:]
                assert row.outcome == "answered" and len(requests) == 2, (name, mode, row)
                assert seen(requests) == set(), (name, mode)
                text = str(requests[1].messages[-len(model.probes) :])
                assert not (held and whole) or ("anybody may read this" in text and "AGENTS.md" in text), (name, mode)
                offered = {tool.name for tool in requests[0].tools}
                assert {"read", "grep", "exec"} <= offered and not offered & set(MEMORY_TOOLS), name
        folder = tmp_path / "h" / "workspace"
        assert all(mark in (folder / name).read_text() for name, mark in MARKS.items())
        await until(lambda: sum(reply.text.startswith("Done.") for reply in channel.sends) >= 18, 60)
        assert not [reply for reply in channel.sends if reply.media]


@pytest.mark.parametrize("contain", KINDS)
async def test_the_owner_and_whom_the_owner_names_have_all_of_it(tmp_path: Path, contain: str) -> None:
    for name, asked in OWN.items():
        model, channel = Prober(), FakeChannel()
        async with site(tmp_path / name.replace(" ", "-"), model, channel, contain) as app:
            for _ in range(2):
                row = await app.wait((await app.submit(asked)).id)
                assert row.outcome == "answered", (name, row)
                model.probes = PROBES  # the second turn is there for its prompt and its tools
            first, then, again, last = model.requests
            assert MARKS["MEMORY.md"] in first.prompt.stable and MARKS["USER.md"] in first.prompt.stable, name
            assert not {TODAY, "diary/extra.md"} & seen([first]), name
            assert seen([then]) == set(MARKS), name
            assert first.prompt.stable == then.prompt.stable == again.prompt.stable == last.prompt.stable
            assert first.tools == again.tools


async def test_what_nothing_holds_is_asked_about_where_others_read_along(tmp_path: Path) -> None:
    model, channel = Prober(), FakeChannel()
    model.probes = [("exec", {"command": "cat MEMORY.md"})]
    async with site(tmp_path / "h", model, channel, "off") as app:
        item = (await app.submit(owner(**GROUP))).id
        async with asyncio.timeout(60):
            while not (rows := await app.approvals.pending()):
                await asyncio.sleep(0.005)
        await app.approvals.answer(rows[0].id, "deny", "owner")
        await app.wait(item)
        assert seen(model.requests) == set() and "denied" in str(model.requests[-1].messages)
        await app.wait((await app.submit(owner())).id)  # unasked, as the owner wants it, in the owner's own chat
        assert "MEMORY.md" in seen(model.requests[-1:]) and not await app.approvals.pending()


async def test_the_door_says_who_the_owner_is(tmp_path: Path) -> None:
    """Through the channel's own way in: strangers, a member, the owner; and somebody who is alone on the list."""
    model, channel = Prober(), FakeChannel()
    async with site(tmp_path / "h", model, channel, "landlock") as app:
        for who, private in ((STRANGER, False), (MEMBER, False), (FRIEND, True), (OWNER, True)):
            before = len(model.requests)
            (item,) = await channel.receive("hi", event=f"e{who}", sender=who, to=who)
            await app.wait(item)
            assert (seen(model.requests[before : before + 1]) == {"MEMORY.md", "USER.md"}) is private, who
            assert bool(seen(model.requests[before:])) is private, who
    model, channel = Prober(), FakeChannel()
    alone = {"channels": {"fake": {"allowFrom": ["7"]}}, "commands": {}, "memory": {}}
    async with site(tmp_path / "alone", model, channel, "landlock", **alone) as app:
        for _ in range(2):
            await app.wait((await channel.receive("hi", event="e", sender="7", to="7"))[0])
        assert seen(model.requests[:1]) == {"MEMORY.md", "USER.md"}
        assert len({request.prompt.stable for request in model.requests}) == 1


async def test_notes_of_the_last_days_open_only_the_owners_session(tmp_path: Path) -> None:
    for who, private in ((owner(), True), (member(session="fake:direct:2"), False)):
        model, channel = Prober(), FakeChannel()
        async with site(tmp_path / str(private), model, channel, "landlock") as app:
            for text in ("hello", "/new", "hello again"):
                await app.wait((await app.submit(msgspec.structs.replace(who, text=text))).id)
            opened = next(r for r in model.requests if "hello again" in str(r.messages[-1]))
            assert (MARKS[TODAY] in str(opened.messages)) is private


async def test_a_sub_agent_is_its_parents(tmp_path: Path) -> None:
    for who, private in ((owner(), True), (owner(**GROUP), False)):
        model, channel = Prober(), FakeChannel()
        script = model.play

        def play(request: ModelRequest, script: Any = script) -> ScriptedTurn:
            if "Subagent" in str(request.messages[-1]) or isinstance(request.messages[-1], ToolResult):
                return script(request)
            asked = isinstance(request.messages[-1], UserMessage) and "please go" in request.messages[-1].text
            return call_tools(("sessions_spawn", {"task": "look around"})) if asked else say("NO_REPLY")

        model.play = play  # type: ignore[method-assign]
        more = {"tools": {**RULES["tools"], "subagents": {"tools": {"alsoAllow": ["memory_search", "memory_get"]}}}}
        async with site(tmp_path / str(private), model, channel, "landlock", **more) as app:
            await app.wait((await app.submit(msgspec.structs.replace(who, text="please go"))).id)
            async with asyncio.timeout(60):
                while any(c.state != "told" for c in app.subagents.registry.every()) or app.dispatcher.busy:
                    await asyncio.sleep(0.01)
            children = [r for r in model.requests if "You are a sub-agent" in r.prompt.text]
            assert len(children) == 2 and not seen(children[:1])
            assert seen(children) == (set(MARKS) if private else set())


async def test_a_session_keeps_its_prompt_whoever_begins_the_turn(tmp_path: Path) -> None:
    """The owner's chat as a session of its own: the owner, a wake-up, a job and a heartbeat there get the same prefix.
    The page's owner is nobody's chat: before the owner wrote from the chat itself, nothing is known of whose it is."""
    model, channel = Prober(), FakeChannel()
    model.probes = [("memory_search", {"query": "lobster"})]
    async with site(tmp_path / "h", model, channel, "landlock", session={"dmScope": "per-channel-peer"}) as app:
        key = "fake:direct:1"
        turns = [
            owner(sender=ADMIN, session=key, **WEB),
            owner(),
            system("wake", key, options=turn("wake")),
            system("cron", key, options=turn("cron")),
            owner(sender=ADMIN, session=key, **WEB),
        ]
        firsts = []
        for asked in turns:
            before = len(model.requests)
            await app.wait((await app.submit(asked)).id)
            firsts.append(model.requests[before])
        assert not seen(firsts[:1])
        assert seen(firsts[1:2])
        for request in firsts[2:]:
            assert request.prompt.stable == firsts[1].prompt.stable


async def test_where_others_have_written_the_conversation_is_shared_until_a_new_one(tmp_path: Path) -> None:
    model, channel = Prober(), FakeChannel()
    model.probes = [("memory_search", {"query": "lobster"})]
    async with site(tmp_path / "h", model, channel, "landlock", session={"dmScope": "main"}) as app:

        async def first(asked: Inbound) -> ModelRequest:
            before = len(model.requests)
            await app.wait((await app.submit(asked)).id)
            return model.requests[before]

        assert not seen([await first(member())]) and not seen([await first(owner())])
        assert not seen([await first(system("heartbeat", "main", options=turn("heartbeat")))])
        await app.wait((await app.submit(owner(text="/new"))).id)
        assert seen([await first(owner())])


async def test_the_program_says_what_is_kept_away_and_why(tmp_path: Path) -> None:
    model, channel = Prober(), FakeChannel()
    async with site(tmp_path / "h", model, channel, "landlock") as app:

        async def said(asked: Inbound) -> str:
            return (await app.wait((await app.submit(asked)).id)).note

        why = await said(owner(text="/tools why memory_search", **GROUP))
        assert "not offered" in why and "memory.allowFrom" in why
        listed = await said(owner(text="/context list", **GROUP))
        assert "AGENTS.md" in listed and "MEMORY.md" not in listed and "USER.md" not in listed
        assert "MEMORY.md" in await said(owner(text="/context list"))
