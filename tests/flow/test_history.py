"""What of a long history reaches the model: limits, shortened results and their handles, pruning, foreign files."""

from __future__ import annotations

import asyncio
import json
import os
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from flow.test_app import running, settings, transcript
from nursery import PythonProgram, run_program
from palinurus.app import App
from palinurus.clock import SystemClock
from palinurus.core.history.repair import is_valid_history
from palinurus.core.history.truncate import find_result_handle
from palinurus.core.types.inbound import Sender, Target
from palinurus.core.types.messages import ToolResult
from palinurus.core.types.usage import TokenUsage
from palinurus.testing.channel import FakeChannel
from palinurus.testing.model import ScriptedModel, ScriptedTurn, call_tools, say
from palinurus.testing.server import ModelServer
from support import inbound

# These tests are about what a command prints, not about approvals and cells.
FREE = {"exec": {"security": "full", "ask": "off"}}
DEFAULTS = {"model": {"primary": "fake/m"}, "sandbox": {"contain": "off"}}
SESSIONS = Path("agents") / "main" / "sessions"


@pytest.mark.seed(326)
async def test_a_long_result_is_shortened_kept_and_paged(tmp_path: Path) -> None:
    home = tmp_path / "h"
    lines = [f"entry {n} {'x' * 60}" for n in range(1500)]
    (home / "workspace").mkdir(parents=True)
    script = "i=0; while [ $i -lt 1500 ]; do echo entry $i " + "x" * 60 + "; i=$((i+1)); done"

    def page(request: Any) -> Any:
        """Do what the mark says."""
        found = re.search(r'read path="(result:\w+)" offset=(\d+)', request.messages[-1].text)
        assert found
        return call_tools(("read", {"path": found[1], "offset": int(found[2])}))

    model = ScriptedModel([call_tools(("exec", {"command": script})), page, say("seen"), say("again")])
    async with running(home, model, tools=FREE, agents={"defaults": DEFAULTS}) as app:
        done = await app.wait((await app.submit(inbound("list", sender=Sender("o", owner=True)))).id)
        await app.wait((await app.submit(inbound("and now?", sender=Sender("o", owner=True)))).id)
    assert done.note == "seen"
    shown, paged = (m for m in model.requests[2].messages if isinstance(m, ToolResult))
    assert len(shown.text) <= 64_000 < len("\n".join(lines))
    (file,) = (home / SESSIONS).glob("*.jsonl.result-*")
    assert file.name.endswith(find_result_handle(shown.text)) and file.read_text().rstrip().splitlines()[:1500] == lines
    last = shown.text.partition("\n[…")[0].splitlines()[-1]
    assert f"entry {int(last.split()[1]) + 1} " in paged.text
    on_file = [
        e["message"]["content"][0]["text"] for e in transcript(home) if e.get("message", {}).get("role") == "toolResult"
    ]
    assert on_file == [shown.text, paged.text]  # what the model saw
    assert model.requests[3].messages[: len(model.requests[2].messages)] == model.requests[2].messages  # byte for byte


async def test_results_of_one_answer_share_the_room(tmp_path: Path) -> None:
    script = "yes 0123456789 | head -n 9000"
    model = ScriptedModel([call_tools(*[("exec", {"command": script})] * 8), say("done")])
    async with running(tmp_path / "h", model, tools=FREE, agents={"defaults": DEFAULTS}) as app:
        await app.wait((await app.submit(inbound("many", sender=Sender("o", owner=True)))).id)
    found = [len(m.text) for m in model.requests[1].messages if isinstance(m, ToolResult)]
    assert len(found) == 8 and all(2000 < size <= 16_100 for size in found)


@pytest.mark.seed(325)
async def test_limits_by_person_apply_before_every_request(tmp_path: Path) -> None:
    model, channel = ScriptedModel([say("ok")], repeat=True), FakeChannel()
    channels = {"fake": {"dmHistoryLimit": 4, "dms": {"vip": {"historyLimit": 0}}}}
    scope = {"session": {"dmScope": "per-channel-peer"}, "channels": channels}

    async def asked(app: Any, who: str, count: int) -> list[str]:
        for n in range(count):
            message = inbound(f"{who} {n}", sender=Sender(who), target=Target("fake", who), event=f"{who}{n}")
            await app.wait((await app.submit(message)).id)
        return [m.text for m in model.requests[-1].messages if m.text != "ok"]

    async with running(tmp_path / "h", model, channel, **scope) as app:
        assert await asked(app, "bob", 9) == [f"bob {n}" for n in range(4, 9)]  # four turns and the new message
        assert await asked(app, "vip", 9) == [f"vip {n}" for n in range(9)]


class Leaping(SystemClock):
    """A day that can be let pass."""

    passed = 0

    def now(self) -> int:
        return super().now() + self.passed


@pytest.mark.seed(156, 327, 328, 329)
@pytest.mark.parametrize(
    ("mode", "pause", "pruned"), [("cache-ttl", 360, True), ("cache-ttl", 200, False), ("off", 360, False)]
)
async def test_what_a_cache_that_ran_out_need_not_hold_is_trimmed(
    tmp_path: Path, mode: str, pause: int, pruned: bool
) -> None:
    script = [call_tools(("exec", {"command": "yes abcdefgh | head -n 1000"})), say("ok"), say("ok"), say("ok")]
    clock = Leaping()
    pruning = {"mode": mode, "ttl": "5m", "keepLastAssistants": 1, "softTrimRatio": 0.001}
    agents = {"defaults": {**DEFAULTS, "contextPruning": pruning}}
    async with ModelServer(script) as server:
        provider = {"baseUrl": server.url, "apiKey": "k", "models": [{"id": "m"}]}
        config = settings(tmp_path / "h", agents=agents, tools=FREE, models={"providers": {"fake": provider}})
        app = App(config, {}, clock)
        await app.start()
        try:
            for n in range(3):
                said = inbound(f"turn {n}", at=clock.now(), sender=Sender("o", owner=True))
                await app.wait((await app.submit(said)).id)
                clock.passed += 1000 * (pause if n == 1 else 1)
        finally:
            await app.stop()
    sizes = [len(m["content"]) for r in server.requests for m in r.body["messages"] if m["role"] == "tool"]
    assert sizes[0] == sizes[1] > 8000  # the cache still held it
    assert (sizes[2] < 4000) is pruned


@pytest.mark.seed(327, 328, 329)
async def test_pruning_changes_the_request_and_not_the_file(tmp_path: Path) -> None:
    home = tmp_path / "h"
    script = [call_tools(("exec", {"command": "yes abcdefgh | head -n 1000"})), say("ok")]
    model = ScriptedModel(script * 8)
    pruning = {"mode": "aggressive", "pruneAfterTurns": 2, "maxCharsPerToolResult": 2000}
    agents = {"defaults": {**DEFAULTS, "contextPruning": pruning}}
    async with running(home, model, agents=agents, tools=FREE) as app:
        for n in range(8):
            await app.wait((await app.submit(inbound(f"turn {n}", sender=Sender("o", owner=True)))).id)
    sizes = [len(m.text) for m in model.requests[-1].messages if isinstance(m, ToolResult)]
    assert [size <= 2000 for size in sizes] == [True] * 5 + [False] * 3
    assert all(is_valid_history(request.messages) for request in model.requests)
    lines = [e["message"] for e in transcript(home) if e.get("message", {}).get("role") == "toolResult"]
    assert all(len(line["content"][0]["text"]) > 8000 for line in lines)


async def test_the_estimate_is_measured_and_shown(tmp_path: Path) -> None:
    words = "word " * 400

    def answer(request: Any) -> Any:
        chars = sum(len(m.text) for m in request.messages)
        return ScriptedTurn("fine", usage=TokenUsage(chars // 3 + 500, 3))

    model, channel = ScriptedModel([answer], repeat=True), FakeChannel()
    async with running(tmp_path / "h", model, channel) as app:
        for n in range(12):
            await app.wait((await app.submit(inbound(f"{n} {words}", sender=Sender("o", owner=True)))).id)
        told = await app.wait((await app.submit(inbound("/context", sender=Sender("o", owner=True)))).id)
    line = next(line for line in told.note.splitlines() if "estimate" in line)
    assert re.fullmatch(r"  estimate: 3\.[0-2] characters to a token, \d+% off on average over 10 measures", line), line


def foreign(count: int) -> str:
    """A session as pi writes it, version 3: every type of entry, a branch left behind, and broken lines."""
    start = datetime(2026, 6, 10, 9, tzinfo=UTC)
    entries: list[dict[str, Any]] = []

    def put(kind: str, parent: str | None = "", **body: Any) -> str:
        ident, at = f"{len(entries):08x}", start + timedelta(seconds=len(entries))
        over = entries[-1]["id"] if entries else None
        stamp = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        entries.append(
            {"type": kind, "id": ident, "parentId": over if parent == "" else parent, "timestamp": stamp, **body}
        )
        return ident

    def said(role: str, content: Any, **body: Any) -> str:
        return put("message", message={"role": role, "content": content, "timestamp": len(entries) * 1000, **body})

    usage = {
        "input": 900,
        "output": 20,
        "cacheRead": 0,
        "cacheWrite": 0,
        "totalTokens": 920,
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0},
    }
    route = {"api": "anthropic-messages", "provider": "anthropic", "model": "claude", "usage": usage}
    put("session_info", name="a long one")
    put("model_change", provider="anthropic", modelId="claude")
    put("thinking_level_change", thinkingLevel="high")
    kept = ""
    for n in range(count):
        kept = said("user", [{"type": "text", "text": f"question {n}"}])
        call = [
            {"type": "thinking", "thinking": "hm", "thinkingSignature": "c2ln"},
            {"type": "toolCall", "id": f"toolu_{n}", "name": "bash", "arguments": {"command": "ls"}},
        ]
        said("assistant", call, stopReason="toolUse", **route)
        output = f"file {n}\n" * (30 if n % 50 else 12_000)
        said(
            "toolResult",
            [{"type": "text", "text": output}],
            toolCallId=f"toolu_{n}",
            toolName="bash",
            isError=False,
            details={"x": 1},
        )
        last = said("assistant", [{"type": "text", "text": f"answer {n}"}], stopReason="stop", **route)
        if n % 40 == 7:
            put("custom", customType="openclaw.cache-ttl", data={"timestamp": 1, "provider": "anthropic"})
            put("label", targetId=last, label="here")
            put("custom_message", customType="note", content="a note for the model", display=True)
            said(
                "bashExecution",
                None,
                command="uptime",
                output="up 3 days",
                exitCode=0,
                cancelled=False,
                truncated=False,
            )
            put("something_new", payload={"a": 1})
        if n % 60 == 31:
            said("user", "a branch that was left")
            put("branch_summary", parent=last, fromId=entries[-1]["id"], summary="tried something else")
        if n == count // 2:
            put(
                "compaction",
                summary="## Goal\nthe first half",
                firstKeptEntryId=kept,
                tokensBefore=150_000,
                details={"readFiles": []},
            )
    said(
        "assistant",
        [{"type": "toolCall", "id": "toolu_end", "name": "bash", "arguments": {}}],
        stopReason="toolUse",
        **route,
    )
    header = {
        "type": "session",
        "version": 3,
        "id": "2f1e0000-0000-4000-8000-000000000001",
        "timestamp": "2026-06-10T09:00:00.000Z",
        "cwd": "/home/u",
    }
    lines = [json.dumps(line, ensure_ascii=False) for line in (header, *entries)]
    lines.insert(len(lines) // 3, '{"type":"message","id":"zz')
    return "\n".join(lines) + '\n{"type":"mess'


async def test_a_long_session_of_pi_goes_on(tmp_path: Path) -> None:
    home, model = tmp_path / "h", ScriptedModel([say("hello again"), say("and again")])
    (home / SESSIONS).mkdir(parents=True)
    async with running(home, model) as app:
        await app.wait((await app.submit(inbound("start", session="long", sender=Sender("o", owner=True)))).id)
        (file,) = (home / SESSIONS).glob("*.jsonl")
    data = foreign(600)
    file.write_text(data)
    model = ScriptedModel([say("hello again"), say("and again")])
    compaction = {"memoryFlush": {"enabled": False}, "truncateAfterCompaction": False}
    agents = {"defaults": {"model": {"primary": "fake/m"}, "compaction": compaction}}
    async with running(home, model, agents=agents) as app:
        first = await app.wait((await app.submit(inbound("go on", session="long", sender=Sender("o", owner=True)))).id)
        second = await app.wait((await app.submit(inbound("more", session="long", sender=Sender("o", owner=True)))).id)
    assert (first.note, second.note) == ("hello again", "and again")
    sent = model.requests[0].messages
    assert is_valid_history(sent) and "the first half" in sent[0].text
    texts = [m.text for m in sent]
    assert "question 299" not in texts and {"question 300", "answer 599", "a note for the model"} <= set(texts)
    assert texts[-1].endswith("go on")
    assert max(len(m.text) for m in sent if isinstance(m, ToolResult)) <= 64_000
    assert model.requests[1].messages[: len(sent)] == sent
    after = file.read_text()
    assert after.startswith(data) and "hello again" in after
    assert list((home / SESSIONS).glob("*.bad-1"))


CHILD = """
import asyncio, sys
from pathlib import Path
from flow.test_app import running
from flow.test_history import DEFAULTS, FREE, NOISE
from palinurus import crashpoints
from palinurus.core.types.inbound import Sender
from palinurus.testing.model import ScriptedModel, call_tools, say
from support import inbound

async def main():
    model = ScriptedModel([call_tools(("exec", {"command": NOISE})), say("never shown")])
    async with running(Path(sys.argv[1]), model, tools=FREE, agents={"defaults": DEFAULTS}) as app:
        crashpoints.arm_crashpoint(sys.argv[2])
        await app.wait((await app.submit(inbound("list", sender=Sender("o", owner=True)))).id)

asyncio.run(main())
"""
NOISE = "yes some line that somebody printed | head -n 4000"


@pytest.mark.parametrize("point", ["tool.after:1", "result.after:1", "journal.before:2", "settle.before:1"])
async def test_after_kill_9_every_handle_on_file_leads_to_its_result(tmp_path: Path, point: str) -> None:
    home = tmp_path / "h"
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    child = await asyncio.to_thread(run_program, "-c", CHILD, str(home), point, env=env, kind=PythonProgram)
    assert child.returncode == 137  # killed at the point
    model = ScriptedModel([say("went on")], repeat=True)
    async with running(home, model, tools=FREE, agents={"defaults": DEFAULTS}) as app:
        await app.wait((await app.submit(inbound("still there?", sender=Sender("o", owner=True)))).id)
    results = [e["message"] for e in transcript(home) if e.get("message", {}).get("role") == "toolResult"]
    handles = {find_result_handle(line["content"][0]["text"]) for line in results} - {""}
    assert bool(handles) == (point != "tool.after:1")
    files = {file.name.rpartition("-")[2]: file.read_text() for file in (home / SESSIONS).glob("*.jsonl.result-*")}
    assert handles <= set(files)  # also: a file that nobody names belongs to the session and goes with it
    assert all(text.startswith("some line") and len(text) > 100_000 for text in files.values())
