"""Clauses of the contract that no marked test proved: each of these was green with its clause broken."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from flow.test_access import OWNER, in_group, message
from flow.test_access import config as grouped
from flow.test_answers import compat
from flow.test_app import running, until
from flow.test_directives import mine, shown, tell
from flow.test_prompt import sections
from flow.test_sayings import FREE, LOOSE, MODELS, stored
from flow.test_schedules import beat, beating
from palinurus.core.types.events import RunEvent, ToolEnd, ToolStart
from palinurus.core.types.inbound import Sender, Target, TurnBounds, TurnOptions
from palinurus.core.types.messages import ToolResult
from palinurus.testing.channel import FakeChannel
from palinurus.testing.model import ScriptedModel, StreamGate, call_tools, hold_at, say
from support import inbound


@pytest.mark.seed(193)
@pytest.mark.parametrize("who", [OWNER, "2"])
@pytest.mark.parametrize("where", ["direct", "group"])
async def test_what_context_measures_is_what_is_sent_to_whoever_asks(tmp_path: Path, who: str, where: str) -> None:
    """A preview in a chat is of the next message there, not of the owner's somewhere else."""
    model, seen = ScriptedModel(["ok"], repeat=True), list[Any]()
    make = in_group if where == "group" else message
    defaults = {"model": "fake/m", "reasoningDefault": "on", "contextInjection": "continuation-skip"}
    async with running(tmp_path / "h", model, FakeChannel(), **grouped(), agents={"defaults": defaults}) as app:
        for text in ("/context json", "hello", "/context json", "again"):
            row = await app.wait(await app.admission.take(make(text, who)))
            seen += [json.loads(row.note)["prompt"]] if row.note != "ok" else []
    sent = [[msgspec.to_builtins(part) for part in request.prompt.parts] for request in model.requests]
    assert len(sent) == 2 and seen == sent


@pytest.mark.seed(50, 51, 52, 59, 61, 72, 74, 92, 95, 118)
async def test_configured_then_off_then_inline_then_off_then_cleared(tmp_path: Path) -> None:
    """Four levels with defaults of the agent's own: an off is a decision, an inline word is for its message, a clear
    brings the configured one back."""
    usual = {"thinkingDefault": "high", "fastModeDefault": True, "verboseDefault": "on", "reasoningDefault": "on"}
    agents = {"defaults": {"model": "fake/m"}, "list": [{"id": "main", **usual}]}
    model, channel = ScriptedModel([call_tools(("ls", {"path": "."})), say("so", "because")] * 5), FakeChannel()
    names, seen = ("think", "fast", "verbose", "reasoning"), list[tuple[Any, ...]]()
    async with running(tmp_path / "h", model, channel, agents=agents, models=MODELS) as app:

        async def look(text: str) -> None:
            before = len(channel.seen)
            await tell(app, text)
            await until(lambda: shown(channel)[before:].count("so") == 1)
            shows = shown(channel)[before:]
            request = model.requests[-1]
            seen.append((request.level, request.fast, shows.count("📁 Ls: ."), shows.count("Thinking\nbecause")))

        await look("a")
        await tell(app, " ".join(f"/{name} off" for name in names))
        await look("b")
        await look("c /think low /fast on /verbose on /reasoning on")
        await look("d")
        for name in names:
            await tell(app, f"/{name} default")
        await look("e")
    on, off = ("high", True, 1, 1), ("off", False, 0, 0)
    assert seen == [on, off, ("low", True, 1, 1), off, on]


@pytest.mark.seed(281, 283, 284, 285, 286, 287, 288, 289, 290, 291)
async def test_each_of_the_eight_layers_takes_a_tool_of_its_own(tmp_path: Path) -> None:
    here = {"fake": {"deny": ["find"]}}
    mine = {"fake": {"profile": "coding", "alsoAllow": ["message"], "deny": ["edit"]}}
    own = {"profile": "coding", "alsoAllow": ["message", "agents_list"], "deny": ["grep"], "byProvider": mine}
    everybody = {
        "profile": "minimal",
        "deny": ["ls"],
        "byProvider": here,
        "sandbox": {"tools": {"allow": [], "deny": ["process"]}},
    }
    ruled: dict[str, Any] = {
        "tools": everybody,
        "agents": {
            "defaults": {"model": "fake/m", "sandbox": {"mode": "non-main"}},
            "list": [{"id": "main", "tools": own}],
        },
        "channels": {"telegram": {"enabled": False, "groups": {"-5": {"tools": {"deny": ["write"]}}}}},
    }
    taken = {"pdf", "agents_list", "ls", "find", "grep", "edit", "write", "process"}  # in the order of the layers
    offered = []
    for name, raw in (("free", {}), ("ruled", ruled)):
        model = ScriptedModel(["ok"], repeat=True)
        async with running(tmp_path / name, model, **raw) as app:
            asked = inbound(
                "hi", sender=Sender("me", owner=True), target=Target("telegram", "-5"), kind="group", push=False
            )
            await app.wait((await app.submit(asked)).id)
        offered.append({tool.name for tool in model.requests[0].tools})
    free, left = offered
    assert taken | {"message", "read", "exec"} <= free and not taken & left and {"message", "read", "exec"} <= left


@pytest.mark.seed(125, 126, 127)
@pytest.mark.parametrize("included", [False, True])
async def test_a_heartbeat_is_its_final_word_also_where_the_chat_shows_everything(
    tmp_path: Path, included: bool
) -> None:
    """What the session shows is for people's messages; the agent's own entry says that thoughts of a beat go along."""
    script = [say("hi"), call_tools(("ls", {"path": "."}), text="Looking."), say("The cellar is wet.", "water rises")]
    model, channel = ScriptedModel(script), FakeChannel()
    raw = beating(target="last")
    raw["agents"]["list"] = [{"id": "main", "heartbeat": {"includeReasoning": included}}]
    async with running(tmp_path / "h", model, channel, **raw) as app:
        await tell(app, "hello")
        await tell(app, "/reasoning on /verbose full", push=False)
        await beat(app)
        await until(lambda: "The cellar is wet." in channel.texts)
        assert (await tell(app, "/reasoning", push=False)).startswith("Current reasoning level: on.")
    thoughts = ["Thinking\nwater rises"] if included else []
    assert channel.texts == ["hi", *thoughts, "The cellar is wet."]


PARAGRAPH = "Some words of one paragraph. " * 6  # 173 characters
OPEN = {"dmPolicy": "open", "allowFrom": ["*"]}


@pytest.mark.seed(318, 319, 320, 322)
@pytest.mark.parametrize(
    ("said", "early", "sizes"),
    [
        ({}, False, [(696, 698)]),
        ({"blockStreamingDefault": "on"}, True, [(170, 350)] * 4),
        ({"blockStreamingDefault": "on", "blockStreamingBreak": "message_end"}, False, [(170, 350)] * 4),
    ],
)
async def test_blocks_of_telegram_are_asked_for_and_may_wait_for_the_end_of_the_message(
    tmp_path: Path, said: dict[str, str], early: bool, sizes: list[tuple[int, int]]
) -> None:
    """Telegram follows the defaults: off, then as the text grows, then when it is complete."""
    text, gate = "\n\n".join([PARAGRAPH.strip()] * 4), StreamGate()
    chunk = {"blockStreamingChunk": {"minChars": 100, "maxChars": 300}, "blockStreamingCoalesce": {"idleMs": 0}}
    model = ScriptedModel([hold_at(say(text), gate, 60)], chunk=10)
    channel, agents = FakeChannel("telegram"), {"defaults": {"model": "fake/m", **chunk, **said}}
    async with running(tmp_path / "h", model, channel, agents=agents) as app:
        item = await app.submit(mine("go", target=Target("telegram", "1")))
        await gate.wait_reached()
        if early:
            await until(lambda: len(channel.seen) == 3)
        waits = await app.store.list_due_replies("telegram", 10**15)
        assert bool(waits or channel.seen) is early
        gate.open()
        await app.wait(item.id)
        await until(lambda: len("".join(channel.texts)) > 680)
    assert len(channel.texts) == len(sizes)
    assert all(least <= len(text) <= most for text, (least, most) in zip(channel.texts, sizes, strict=True))


@pytest.mark.seed(310, 314)
async def test_nothing_before_final_goes_out_as_a_block(tmp_path: Path) -> None:
    text = f"{'I weigh it up. ' * 220}\n\n<final>The answer.</final> And more."
    model, channel = ScriptedModel([say(text)], chunk=7), FakeChannel()
    agents = {"defaults": {"model": "fake/m", "blockStreamingCoalesce": {"idleMs": 0}}}
    channels = {"fake": {"blockStreaming": True, **OPEN}}
    async with running(
        tmp_path / "h", model, channel, agents=agents, channels=channels, **compat(taggedReasoning=True)
    ) as app:
        (ident,) = await channel.receive("go", event="e1")
        assert (await app.wait(ident)).note == "The answer."
        await until(lambda: bool(channel.seen))
    assert channel.texts == ["The answer."]


@pytest.mark.seed(188, 214, 215)
async def test_the_last_lines_say_the_repository_and_the_levels_of_this_very_message(tmp_path: Path) -> None:
    """Levels in force, not those of the session: said inline, kept, and the default of the agent."""
    (tmp_path / "h" / "workspace" / ".git").mkdir(parents=True)
    agents = {"defaults": {"model": "fake/m", "thinkingDefault": "minimal", "reasoningDefault": "stream"}}
    model = ScriptedModel(["ok"], repeat=True)
    async with running(tmp_path / "h", model, FakeChannel(), agents=agents, models=MODELS) as app:
        for text in ("a", "b /think high /reasoning on", "/think low /reasoning off", "c"):
            await tell(app, text)
    lines = [request.prompt.volatile.splitlines()[-2:] for request in model.requests]
    assert all(f" | repo={tmp_path / 'h' / 'workspace'} | " in runtime for runtime, _ in lines)
    assert [runtime.rpartition(" | ")[2] for runtime, _ in lines] == [
        "thinking=minimal",
        "thinking=high",
        "thinking=low",
    ]
    assert [said.split()[1] for _, said in lines] == ["stream", "on", "off"]
    assert all("/reasoning switches it" in said for _, said in lines)


@pytest.mark.seed(165, 187, 213, 230, 243)
async def test_heartbeats_are_of_the_default_agent_with_its_own_words_and_jobs_have_the_small_prompt(
    tmp_path: Path,
) -> None:
    for name in ("workspace", "workspace-work"):
        (tmp_path / "h" / name).mkdir(parents=True)
        (tmp_path / "h" / name / "HEARTBEAT.md").write_text("look at the cellar")
    defaults = {"model": "fake/m", "heartbeat": {"prompt": "Is the cellar dry?"}, "promptMode": "none"}
    agents = {
        "defaults": defaults,
        "list": [{"id": "main", "default": True}, {"id": "work", "heartbeat": {"every": "5m"}}],
    }
    model = ScriptedModel(["ok"], repeat=True)
    async with running(tmp_path / "h", model, agents=agents) as app:
        for where in ({}, {"agent": "work"}, {"session": "agent:main:cron:j1:run:1"}):
            await tell(app, "hi", **where)
    own, other, job = (sections(request) for request in model.requests)
    assert own["Heartbeats"].startswith("Heartbeat prompt: Is the cellar dry?\n") and "Heartbeats" not in other
    assert "Messaging" in own and "Messaging" in other  # both are full, whatever a config says of modes
    assert not {"Messaging", "Heartbeats", "Memory Recall", "HEARTBEAT.md", "SOUL.md"} & set(job)
    assert {"Tooling", "Safety", "Workspace", "Runtime", "AGENTS.md"} <= set(job)


@pytest.mark.seed(186, 235)
@pytest.mark.parametrize("group", ["allow", "disallow"])
async def test_a_group_whose_silence_is_not_wanted_never_hears_of_the_token(tmp_path: Path, group: str) -> None:
    model = ScriptedModel(["ok"], repeat=True)
    agents = {"defaults": {"model": "fake/m", "silentReply": {"group": group}}}
    async with running(tmp_path / "h", model, FakeChannel(), agents=agents, **grouped()) as app:
        await app.wait(await app.admission.take(in_group()))
    assert ("NO_REPLY" in model.requests[0].prompt.text) is (group == "allow")


@pytest.mark.seed(138, 44)
async def test_on_of_a_binary_provider_is_kept_as_low(tmp_path: Path) -> None:
    raw = {"models": {"providers": {"zai": {"apiKey": "k"}}}, "agents": {"defaults": {"model": "zai/glm-4.7"}}}
    async with running(tmp_path / "h", ScriptedModel(["ok"], repeat=True), FakeChannel(), **raw) as app:
        assert await tell(app, "/think on") == "Thinking level set to on."
        assert await stored(app, "thinkingLevel") == ["low"]
        assert (await tell(app, "/think")).startswith("Current thinking level: on.")


@pytest.mark.seed(149)
async def test_a_turn_makes_as_many_calls_as_it_may_and_says_so(tmp_path: Path) -> None:
    model, channel = (
        ScriptedModel([lambda request: call_tools(("ls", {"path": f"{len(request.messages)}"}))], repeat=True),
        FakeChannel(),
    )
    async with running(tmp_path / "h", model, channel) as app:
        await tell(app, "go", options=TurnOptions(bounds=TurnBounds(max_turns=2)))
        await until(lambda: any("2 model calls" in text for text in channel.texts))
    assert len(model.requests) == 2


@pytest.mark.seed(325)
async def test_a_group_has_a_limit_of_its_own_and_the_newest_turns_are_kept(tmp_path: Path) -> None:
    model = ScriptedModel(["ok"], repeat=True)
    section = {"historyLimit": 2, "dmHistoryLimit": 4}
    async with running(tmp_path / "h", model, FakeChannel(), **grouped(**section)) as app:
        for n in range(6):
            await app.wait(await app.admission.take(in_group(f"word {n}")))
    said = [m.text for m in model.requests[-1].messages if m.text != "ok"]
    assert len(said) == 3 and [f"word {n}" in text for n, text in zip((3, 4, 5), said, strict=True)] == [True] * 3


@pytest.mark.seed(326)
async def test_json_is_laid_out_before_it_is_cut_and_bytes_are_told_in_words(tmp_path: Path) -> None:
    rows = json.dumps([{"row": n, "text": "x" * 40} for n in range(400)], separators=(",", ":"))
    folder = tmp_path / "h" / "workspace"
    folder.mkdir(parents=True)
    (folder / "rows.json").write_text(rows)
    commands = ("cat rows.json", "head -c 3000 /dev/zero")
    model = ScriptedModel([call_tools(*(("exec", {"command": one}) for one in commands)), say("ok")])
    defaults = {**LOOSE["defaults"], "contextLimits": {"toolResultMaxChars": 3000}}
    async with running(tmp_path / "h", model, agents={"defaults": defaults}, tools=FREE) as app:
        await tell(app, "go")
    laid, binary = (m.text for m in model.requests[1].messages if isinstance(m, ToolResult))
    assert 2000 < len(laid) <= 3000 and '\n    "row": 1,\n' in laid and "left out here" in laid
    assert "binary" in binary and "\0" not in binary and len(binary) < 200


@pytest.mark.seed(327, 328, 329)
@pytest.mark.parametrize("mode", ["aggressive", None])
async def test_pruning_is_asked_for_and_has_a_ratio_and_tools_it_leaves_alone(tmp_path: Path, mode: str | None) -> None:
    rules = {"headRatio": 0.75} if mode is None else {"mode": mode}
    pruning = {
        **rules,
        "pruneAfterTurns": 2,
        "maxCharsPerToolResult": 2000,
        "toolResultHeadRatio": 0.9,
        "tools": {"deny": ["read"]},
    }
    folder = tmp_path / "h" / "workspace"
    folder.mkdir(parents=True)
    (folder / "long").write_text("A" * 5000 + "B" * 5000)
    look = call_tools(("exec", {"command": "cat long"}), ("read", {"path": "long"}))
    model = ScriptedModel([look, say("ok"), *["ok"] * 7])
    defaults = {**LOOSE["defaults"], "contextPruning": pruning}
    async with running(tmp_path / "h", model, agents={"defaults": defaults}, tools=FREE) as app:
        for n in range(8):
            await tell(app, f"turn {n}")
    ran, read = (m.text for m in model.requests[-1].messages if isinstance(m, ToolResult))
    assert len(read) > 9000 and (len(ran) <= 2000) is (mode is not None)
    assert mode is None or ran.count("A") > 4 * ran.count("B") > 0


@pytest.mark.seed(152, 197, 254, 335, 339)
@pytest.mark.parametrize("point", ["before_agent_start", "before_prompt_build"])
async def test_hooks_act_on_every_turn_and_on_both_commands_that_begin_anew(tmp_path: Path, point: str) -> None:
    model, told = ScriptedModel(["ok"], repeat=True), list[tuple[str, int]]()

    def change(payload: dict[str, Any]) -> dict[str, Any]:
        around = {"prependSystemContext": "FIRST", "appendSystemContext": "LAST", "appendContext": "behind"}
        return {"systemPrompt": "Only this."} if payload["prompt"] == "alone" else around

    async with running(tmp_path / "h", model, FakeChannel()) as app:
        app.hooks.on(point, change)
        app.hooks.on("agent:bootstrap", lambda payload: {"bootstrapFiles": [{"name": "SOUL.md", "content": "A gull."}]})
        app.hooks.on("before_reset", lambda payload: told.append((payload["reason"], len(payload["messages"]))))
        for text in ("a", "b", "alone", "/reset", "c", "/new"):
            await tell(app, text)
        await app.hooks.drain()
    *rest, alone, new = ((r.prompt.stable, r.prompt.volatile, r.messages[-1].text) for r in model.requests)
    assert alone == ("Only this.", "", "alone") and [text for _, _, text in (*rest, new)] == [
        f"{n}\n\n[Added by a plugin]\nbehind" for n in "abc"
    ]
    for stable, volatile, _ in (*rest, new):
        assert stable.startswith("FIRST\n\nYou are") and "## SOUL.md\n\nA gull." in stable and volatile.endswith("LAST")
    assert told == [("reset", 6), ("new", 2)]


@pytest.mark.seed(147, 158, 305, 306)
async def test_events_of_a_tool_have_its_arguments_its_result_and_how_it_went(tmp_path: Path) -> None:
    events = list[RunEvent]()
    model = ScriptedModel([call_tools(("ls", {"path": "."}), ("read", {"path": "nope"}), text="So."), say("ok")])
    async with running(tmp_path / "h", model) as app:
        after = list[tuple[str, bool]]()
        app.hooks.on("after_tool_call", lambda p: after.append((p["toolName"], "error" in p)))
        await app.wait((await app.submit(mine("go"), events.append)).id)
        await app.hooks.drain()
    starts = [(e.name, e.args) for e in events if isinstance(e, ToolStart)]
    ends = [(e.name, e.is_error, e.result.isError, "nope" in e.result.text) for e in events if isinstance(e, ToolEnd)]
    assert sorted(starts) == [("ls", {"path": "."}), ("read", {"path": "nope"})]
    assert ends == [("ls", False, False, False), ("read", True, True, True)]
    assert sorted(after) == [("ls", False), ("read", True)]
    given = [m.toolName for m in model.requests[1].messages if isinstance(m, ToolResult)]
    assert given == ["ls", "read"]  # in the order of the calls


@pytest.mark.seed(198)
@pytest.mark.parametrize("ref", ["openai/gpt-5", "openai/gpt-5.2", "openrouter/openai/gpt-5-mini"])
async def test_the_overlay_is_for_the_whole_family_whoever_serves_it(tmp_path: Path, ref: str) -> None:
    providers = {ref.partition("/")[0]: {"apiKey": "k"}}
    model = ScriptedModel(["ok"], repeat=True)
    async with running(
        tmp_path / "h", model, agents={"defaults": {"model": ref}}, models={"providers": providers}
    ) as app:
        await tell(app, "hi")
    assert "<persona_latch>" in model.requests[0].prompt.stable


@pytest.mark.seed(100, 105, 111)
async def test_a_failure_has_its_raw_command_and_trace_brings_no_tools(tmp_path: Path) -> None:
    model, channel = (
        ScriptedModel([call_tools(("exec", {"command": "grep -q x /dev/null"})), say("ok")] * 2),
        FakeChannel(),
    )
    agents = {"defaults": {**LOOSE["defaults"], "toolProgressDetail": "raw"}}
    async with running(tmp_path / "h", model, channel, agents=agents, tools=FREE) as app:
        app.hooks.on("before_tool_call", lambda payload: {"block": True, "blockReason": "not today"})
        app.hooks.trace("agent:main:main", "active-memory", "2 notes recalled")
        await tell(app, "go /verbose on")
        await tell(app, "go /trace on")
        await until(lambda: "active-memory: 2 notes recalled" in shown(channel))
    (start, failed, quiet) = shown(channel, "tool")
    assert start.startswith("🛠️ Exec: ") and start.endswith(", grep -q x /dev/null")
    assert failed == quiet == f"⚠️ 🛠️ Exec failed: {start.removeprefix('🛠️ Exec: ')}"


@pytest.mark.seed(308)
async def test_a_block_of_one_long_paragraph_ends_with_a_sentence_though_a_comma_is_nearer(tmp_path: Path) -> None:
    sentence, sizes = "One two, three four five six, seven. ", {"minChars": 50, "maxChars": 120}
    model, channel = ScriptedModel([say((sentence * 30).strip())], chunk=9), FakeChannel()
    agents = {"defaults": {"model": "fake/m", "blockStreamingChunk": sizes, "blockStreamingCoalesce": {"idleMs": 0}}}
    async with running(
        tmp_path / "h", model, channel, agents=agents, channels={"fake": {"blockStreaming": True, **OPEN}}
    ) as app:
        (ident,) = await channel.receive("go", event="e1")
        await app.wait(ident)
        await until(lambda: "".join(channel.texts).count("seven.") == 30)
    assert len(channel.texts) >= 8 and all(one.endswith("seven.") for one in channel.texts)
