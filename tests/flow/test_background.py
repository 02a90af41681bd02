"""Commands in the background through the whole App: the session is woken once, also when the gateway dies meanwhile."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from flow.test_app import CONFIG, running, until
from nursery import PythonProgram
from palinurus.core.types.messages import ToolResult
from palinurus.testing.channel import FakeChannel
from palinurus.testing.model import ScriptedModel, call_tools, say
from palinurus.tools.commands.descendants import list_processes as alive
from palinurus.tools.sandbox import landlock

CELLS = ["off", "landlock"] if landlock.landlock_version() else ["off"]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc")


def run(command: str, **args: Any) -> Any:
    return call_tools(("exec", {"command": command, "background": True, **args}))


def contained(cell: str) -> dict[str, Any]:
    """The part of the config that says what holds commands back."""
    defaults = {**CONFIG["agents"]["defaults"], "sandbox": {"contain": cell}}
    return {"agents": {"defaults": defaults}}


def heard(model: ScriptedModel) -> list[str]:
    """The last thing of each request that was not a tool's result."""
    return [r.messages[-1].text for r in model.requests if not isinstance(r.messages[-1], ToolResult)]


async def until_none_kept(app: Any) -> None:
    async with asyncio.timeout(60):
        while await app.store.list_records("process"):
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("cell", CELLS)
async def test_the_end_of_a_background_command_wakes_the_session_once(tmp_path: Path, cell: str) -> None:
    script = [
        run("while [ ! -e go ]; do sleep 0.01; done; echo '/stop 12 passed'; exit 1"),
        say("started"),
        say("done"),
    ]
    model, channel = ScriptedModel(script), FakeChannel(owner=True)
    async with running(tmp_path / "h", model, channel, **contained(cell)) as app:
        (ident,) = await channel.receive("run the tests", event="e1")
        assert (await app.wait(ident)).note == "started"
        (row,) = app.processes.all()
        assert row.status == "running" and len(await app.store.list_records("process")) == 1
        (Path(row.cwd) / "go").touch()
        await until(lambda: len(channel.texts) == 2)
        await until_none_kept(app)
        await asyncio.sleep(0.1)
    assert channel.texts == ["started", "done"]
    woken = heard(model)[-1]
    assert woken.startswith(f"System: Exec completed ({row.id}, code 1) :: /stop 12 passed\n")
    assert len(model.requests) == 3


@pytest.mark.parametrize(
    ("config", "command", "wakes"),
    [
        ({}, "true", False),  # nothing to say
        ({"notifyOnExitEmptySuccess": True}, "true", True),
        ({"notifyOnExit": False}, "echo x; exit 1", False),
        ({}, "exit 3", True),
    ],
)
async def test_who_is_woken(tmp_path: Path, config: dict[str, Any], command: str, wakes: bool) -> None:
    model = ScriptedModel([run(command), say("started"), say("woken"), say("never")])
    channel = FakeChannel(owner=True)
    async with running(tmp_path / "h", model, channel, tools={"exec": config}, **contained("off")) as app:
        (ident,) = await channel.receive("go", event="e1")
        await app.wait(ident)
        await until(lambda: app.processes.all()[0].status != "running")
        await until_none_kept(app)
        await until(lambda: channel.texts == (["started", "woken"] if wakes else ["started"]))
        await asyncio.sleep(0.05)
    assert channel.texts == (["started", "woken"] if wakes else ["started"])


@pytest.mark.seed(221)
@pytest.mark.parametrize("wakes", [True, False])
async def test_the_prompt_says_start_once_where_the_end_wakes_and_only_there(tmp_path: Path, wakes: bool) -> None:
    model, channel = ScriptedModel([run("echo x"), say("started"), say("woken")]), FakeChannel(owner=True)
    tools = {"exec": {"notifyOnExit": wakes}}
    async with running(tmp_path / "h", model, channel, tools=tools, **contained("off")) as app:
        (ident,) = await channel.receive("go", event="e1")
        await app.wait(ident)
        await until_none_kept(app)
        if wakes:
            await until(lambda: channel.texts == ["started", "woken"], 60)
    assert ("start it once and rely on that" in model.requests[0].prompt.stable) is wakes


async def test_a_session_that_polls_until_the_end_is_not_woken_again(tmp_path: Path) -> None:
    def poll(request: Any) -> Any:
        result = next(m for m in request.messages if isinstance(m, ToolResult))
        return call_tools(("process", {"action": "poll", "sessionId": result.details["sessionId"], "timeout": 20_000}))

    model, channel = ScriptedModel([run("sleep 0.2; echo made"), poll, say("made it")]), FakeChannel(owner=True)
    async with running(tmp_path / "h", model, channel, **contained("off")) as app:
        (ident,) = await channel.receive("make", event="e1")
        assert (await app.wait(ident)).note == "made it"
        await until_none_kept(app)
        await asyncio.sleep(0.1)
    assert len(model.requests) == 3 and "made" in model.requests[-1].messages[-1].text


async def test_stopping_ends_children_and_the_session_hears_of_it_after_the_start(tmp_path: Path) -> None:
    model, channel = (
        ScriptedModel([run("echo here; touch up; exec sleep 1000"), say("started")]),
        FakeChannel(owner=True),
    )
    async with running(tmp_path / "h", model, channel, **contained("off")) as app:
        (ident,) = await channel.receive("go", event="e1")
        await app.wait(ident)
        (row,) = app.processes.all()
        await until(lambda: channel.texts == ["started"] and (Path(row.cwd) / "up").exists())
    await until(lambda: row.pid not in alive())  # the kernel takes a moment to take its namespace apart
    model, channel = ScriptedModel([say("sorry")]), FakeChannel(owner=True)
    async with running(tmp_path / "h", model, channel, **contained("off")) as app:
        await until(lambda: channel.texts == ["sorry"])
        await until_none_kept(app)
    assert "it was ended because the gateway stopped) :: here" in heard(model)[-1]
    again = ScriptedModel([say("never")])
    async with running(tmp_path / "h", again, FakeChannel(owner=True)):
        await asyncio.sleep(0.1)
    assert again.requests == []


@pytest.mark.parametrize("cell", CELLS)
async def test_a_question_in_a_terminal_is_answered_by_the_agent(tmp_path: Path, cell: str) -> None:
    def step(action: str, **args: Any) -> Any:
        def call(request: Any) -> Any:
            result = next(m for m in request.messages if isinstance(m, ToolResult))
            return call_tools(("process", {"action": action, "sessionId": result.details["sessionId"], **args}))

        return call

    ask = run("read -p 'Sure? ' a </dev/tty; echo \"you said $a\"", pty=True)
    script = [ask, step("poll", timeout=5000), step("send-keys", literal="yes", keys=["Enter"]),
              step("poll", timeout=20_000), step("poll", timeout=20_000), say("done")]  # fmt: skip
    model = ScriptedModel(script)
    config = {**contained(cell), "tools": {"exec": {"notifyOnExit": False}}}
    channel = FakeChannel(owner=True)
    async with running(tmp_path / "h", model, channel, **config) as app:
        (ident,) = await channel.receive("do it", event="e1")
        assert (await app.wait(ident)).note == "done"
    texts = [m.text for m in model.requests[-1].messages if isinstance(m, ToolResult)]
    assert "".join(texts[:2]).count("Sure?") == 1 and "you said yes" in "".join(texts[3:]), texts


GATEWAY = """
import asyncio, json, sys
from pathlib import Path
sys.path[:0] = sys.argv[3:]
from palinurus.testing.channel import FakeChannel
from palinurus.testing.model import ScriptedModel, call_tools, say
from flow.test_app import running

COMMAND = "(setsid sh -c 'echo $$ > stray; while :; do sleep 0.05; done' >/dev/null 2>&1 &) ; echo $$ > pid; sleep 1000"

async def main():
    script = [call_tools(("exec", {"command": COMMAND, "background": True})), say("started"),
              call_tools(("exec", {"command": "echo $$ > front; sleep 1000"}))]
    channel = FakeChannel(owner=True)
    async with running(Path(sys.argv[1]), ScriptedModel(script), channel, **json.loads(sys.argv[2])) as app:
        (ident,) = await channel.receive("go", event="e1")
        await app.wait(ident)
        await channel.receive("and this", event="e2")
        await asyncio.sleep(3600)

asyncio.run(main())
"""


@pytest.mark.parametrize("cell", CELLS)
async def test_after_kill_9_strays_are_ended_and_the_session_is_told_once(tmp_path: Path, cell: str) -> None:
    home, here = tmp_path / "h", Path(__file__).parent
    config = {**contained(cell), "tools": {"taint": {"allow": ["exec"]}}}  # nobody allows the second command
    arguments = ["-c", GATEWAY, str(home), json.dumps(config), str(here.parent)]
    gateway = PythonProgram(*arguments, stdout=subprocess.DEVNULL)
    try:
        pids = await asyncio.to_thread(_pids, home, gateway)
        assert all(pid in alive() for pid in pids.values())
    finally:
        gateway.send_signal(signal.SIGKILL)
        gateway.wait()  # from here on their keepers end them; whom those miss, the next start ends
    model, channel = ScriptedModel([say("noted")], repeat=True), FakeChannel(owner=True)
    async with running(home, model, channel, **contained(cell)) as app:
        assert not [pid for pid in pids.values() if pid in alive()]
        await until(lambda: any("Exec outcome unknown" in text for text in heard(model)))
        await until_none_kept(app)
        await asyncio.sleep(0.1)
    told = [text for text in heard(model) if "Exec outcome unknown" in text]
    assert len(told) == 1 and "the gateway was killed while this ran" in told[0]
    again = ScriptedModel([say("never")])
    async with running(home, again, FakeChannel(owner=True)):
        await asyncio.sleep(0.1)
    assert again.requests == []


def _pids(home: Path, gateway: subprocess.Popen[bytes]) -> dict[str, int]:
    """What the children wrote, once it is all there and the waiting one has its record too."""
    until_ = time.monotonic() + 60
    while time.monotonic() < until_ and gateway.poll() is None:
        found = {p.name: p.read_text() for n in ("pid", "stray", "front") for p in home.rglob(n) if p.is_file()}
        if len(found) == 3 and all(text.endswith("\n") for text in found.values()):
            time.sleep(0.6)
            return {name: int(text) for name, text in found.items()}
        time.sleep(0.02)
    raise AssertionError(f"the gateway did not get there: {gateway.poll()}, {found}")
