"""The system prompt as requests carry it: which sections there are, in which order, in which scene."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flow.test_access import config as grouped
from flow.test_access import in_group, message
from flow.test_app import running, settings
from flow.test_directives import tell
from palinurus.app import App
from palinurus.clock import SystemClock
from palinurus.core.prompt.facts import PromptContribution
from palinurus.core.types.inbound import Inbound, Sender, Target, TurnOptions
from palinurus.core.types.messages import ToolResult
from palinurus.core.types.model import ModelRequest
from palinurus.core.types.vendor import Vendor
from palinurus.plugins.api import PluginContributions
from palinurus.testing.channel import FakeChannel
from palinurus.testing.model import ScriptedModel, call_tools, say

IDENTITY = "You are a personal assistant running inside Palinurus."
FILES = ("AGENTS", "SOUL", "TOOLS", "IDENTITY", "USER", "HEARTBEAT", "MEMORY")
KNOWN: dict[str, Any] = {
    "agents": {"defaults": {"model": "fake/m", "userTimezone": "Asia/Tokyo", "models": {"fake/m": {"alias": "swift"}}}},
    "commands": {"ownerAllowFrom": ["fake:me"]},
}


def sections(request: ModelRequest) -> dict[str, str]:
    """Heading -> text, in their order; "" is what stands before the first, "|" the cache boundary."""
    found, name = {"": ""}, ""
    for line in [*request.prompt.stable.splitlines(), "## |", *request.prompt.volatile.splitlines()]:
        if line.startswith(("# ", "## ")):
            name = line.lstrip("# ")
            found[name] = ""
        else:
            found[name] += f"{line}\n"
    return found


async def ask(home: Path, text: str = "hi", scripted: Any = None, **config: Any) -> ModelRequest:
    """The first request of a direct chat."""
    model = ScriptedModel(scripted or ["ok"], repeat=not scripted)
    (home / "workspace").mkdir(parents=True)
    for name in FILES:
        (home / "workspace" / f"{name}.md").write_text(f"content of {name}")
    options = config.pop("options", TurnOptions())
    async with running(home, model, FakeChannel(), **{**KNOWN, **config}) as app:
        await tell(app, text, options=options)
    return model.requests[-1]


ORDER = [
    "", "Tooling", "Tool Call Style", "Execution Bias", "Safety", "Palinurus Control", "Skills", "Memory Recall",
    "Palinurus Self-Update", "Model Aliases", "Workspace", "Documentation", "Authorized Senders", "Current Date & Time",
    "Workspace Files (injected)", "Assistant Output Directives", "Project Context", "AGENTS.md", "SOUL.md",
    "IDENTITY.md", "USER.md", "TOOLS.md", "MEMORY.md", "|", "Dynamic Project Context", "HEARTBEAT.md", "Messaging",
    "Approvals", "Palinurus From Inside", "Heartbeats", "Runtime",
]  # fmt: skip
SAID = {
    "": IDENTITY,
    "Tooling": "The structured tool definitions decide|- exec: |make a `cron` job|sleep loops|`yieldMs`|"
    "`process` again|commands that start now|log or status, to give it input|start it once and rely on that|"
    "`sessions_spawn`. Its result is pushed|in a loop to wait|exactly one step in_progress|not repeat the whole plan",
    "Execution Bias": "acted on in this turn|Go on until it is done or truly blocked|A weak or empty tool result|"
    "looked up now|verify with the cheapest check",
    "Safety": "no self-preservation|Human oversight",
    "Palinurus Control": "Prefer the `gateway` tool|never invent commands",
    "Skills": "scan the descriptions|with the `read` tool, then follow it|<available_skills>|<name>|<description>|<loc",
    "Memory Recall": "`memory_search`|`memory_get`|Source: <path>#<line>",
    "Palinurus Self-Update": "config.schema.lookup|config.patch|config.apply|update.run|tools.exec.ask and tools.exec",
    "Model Aliases": "- swift: fake/m",
    "Workspace": "Your working directory is: |Treat it as the only place for files|commit",
    "Documentation": "read the docs first|`pal status` yourself|config.schema.lookup",
    "Authorized Senders": "fake:me",
    "Current Date & Time": "Time zone: Asia/Tokyo",
    "Workspace Files (injected)": "includes them under Project Context",
    "Assistant Output Directives": "MEDIA:|[[audio_as_voice]]|[[reply_to_current]]",
    "Project Context": "SOUL.md is who you are: embody its persona",
    "HEARTBEAT.md": "content of HEARTBEAT",
    "Messaging": "To write to another session use `sessions_send`",
    "Heartbeats": "Read HEARTBEAT.md if it exists (workspace context). Follow it strictly. Do not infer or repeat old "
    "tasks from prior chats. If nothing needs attention, reply HEARTBEAT_OK.|answer with exactly HEARTBEAT_OK",
    "Runtime": "agent=main | host=|os=|model=fake/m|shell=|channel=fake|thinking=off|Reasoning: off|/reasoning",
}


@pytest.mark.seed(162, 163, 164, 167, 168, 169, 170, 171, 172, 173, 174, 175, 177, 178, 179, 180, 185, 187, 188, 190)
@pytest.mark.seed(199, 200, 201, 202, 203, 204, 207, 208, 209, 212, 213, 214, 215, 216, 217, 219, 220, 222, 223, 224)
@pytest.mark.seed(123, 227, 230, 390, 391, 401)
async def test_a_direct_chat_has_every_section_in_order(tmp_path: Path) -> None:
    found = sections(await ask(tmp_path / "h"))
    assert list(found) == ORDER
    missing = [(name, words) for name, said in SAID.items() for words in said.split("|") if words not in found[name]]
    assert missing == []
    assert "2026" not in found["Current Date & Time"] and ":" not in found["Current Date & Time"].partition(": ")[2]
    assert (
        len(found["Runtime"].splitlines()) == 2 and len(found["Safety"]) < 800
    )  # one line, and what shows of thoughts
    assert "NO_REPLY" not in "".join(found.values())  # 236: direct chats never hear of it


@pytest.mark.seed(163, 165, 182, 231, 232, 234, 253, 360)
async def test_a_sub_agent_has_the_small_one(tmp_path: Path) -> None:
    home, heard = tmp_path / "h", list[ModelRequest]()

    def answer(request: ModelRequest) -> Any:
        heard.append(request)
        return (
            call_tools(("sessions_spawn", {"task": "look at it", "label": "scout"})) if len(heard) == 1 else say("ok")
        )

    await ask(home, scripted=[answer] * 8)
    (small,) = (sections(r) for r in heard if "Subagent Context" in r.prompt.volatile)
    omitted = {
        *(
            "Memory Recall",
            "Palinurus Self-Update",
            "Model Aliases",
            "Authorized Senders",
            "Assistant Output Directives",
        ),
        *(
            "Messaging",
            "Silent Replies",
            "Heartbeats",
            "SOUL.md",
            "IDENTITY.md",
            "USER.md",
            "MEMORY.md",
            "HEARTBEAT.md",
        ),
    }
    kept = {"Tooling", "Safety", "Skills", "Workspace", "Current Date & Time", "Runtime", "AGENTS.md", "TOOLS.md"}
    assert omitted & set(small) == set() and kept - set(small) == set() and small[""].strip() == IDENTITY
    assert "look at it" in small["Subagent Context"] and "scout" in small["Subagent Context"]
    assert "agent:main:main" in small["Subagent Context"] and "Group Chat Context" not in small


@pytest.mark.seed(166, 233)
async def test_none_is_the_identity_and_nothing_else(tmp_path: Path) -> None:
    request = await ask(tmp_path / "h", options=TurnOptions(prompt_mode="none"))
    assert request.prompt.text.strip() == IDENTITY


GONE = {
    "cron": ("Tooling", "`cron` job"),
    "gateway": ("Palinurus Self-Update", ""),
    "update_plan": ("Tooling", "in_progress"),
    "sessions_spawn": ("Tooling", "sub-agent with"),
    "message": ("Messaging", "Use `message`"),
}


@pytest.mark.seed(189, 202, 226, 392)
async def test_what_is_not_there_is_not_spoken_of(tmp_path: Path) -> None:
    for name, (section, words) in GONE.items():
        defaults = {**KNOWN["agents"]["defaults"], "subagents": {"delegationMode": "prefer"}}
        found = sections(await ask(tmp_path / name, tools={"deny": [name]}, agents={"defaults": defaults}))
        assert (words not in found[section]) if words else section not in found
        assert ("Sub-Agent Delegation" in found) is (name != "sessions_spawn")
    bare = {"model": "fake/m", "skills": [], "heartbeat": {"every": "0m"}}
    found = sections(await ask(tmp_path / "bare", agents={"defaults": bare}, commands={}))
    assert not {"Skills", "Model Aliases", "Authorized Senders", "Heartbeats", "HEARTBEAT.md", "Sandbox"} & set(found)


@pytest.mark.seed(225, 226)
@pytest.mark.parametrize(
    ("shared", "own", "there"), [(None, None, False), ("prefer", None, True), ("prefer", "suggest", False)]
)
async def test_delegation(tmp_path: Path, shared: str | None, own: str | None, there: bool) -> None:
    agents = {
        "defaults": {"model": "fake/m", **({"subagents": {"delegationMode": shared}} if shared else {})},
        "list": [{"id": "main", **({"subagents": {"delegationMode": own}} if own else {})}],
    }
    request = await ask(tmp_path / "h", agents=agents)
    assert ("Sub-Agent Delegation" in sections(request)) is there
    assert "sessions_spawn" in {tool.name for tool in request.tools}  # words only


@pytest.mark.seed(182, 186, 235, 236)
@pytest.mark.parametrize(
    ("visible", "kind", "silent"),
    [(None, "group", True), ("automatic", "group", True), ("message_tool", "group", False), (None, "direct", False)],
)
async def test_silence_is_offered_in_groups_whose_replies_are_posted_by_themselves(
    tmp_path: Path, visible: str | None, kind: str, silent: bool
) -> None:
    model = ScriptedModel(["ok"], repeat=True)
    raw = grouped() | ({"messages": {"groupChat": {"visibleReplies": visible}}} if visible else {})
    async with running(tmp_path / "h", model, FakeChannel(), **raw) as app:
        ident = await app.admission.take(in_group() if kind == "group" else message())
        await app.wait(ident)
    found = sections(model.requests[0])
    assert ("Silent Replies" in found) is silent
    assert ("NO_REPLY" in model.requests[0].prompt.text) is silent
    assert ("Group Chat Context" in found) is (kind == "group")
    if visible == "message_tool":
        assert "answer with `message`" in found["Messaging"]


@pytest.mark.seed(180, 183, 229)
@pytest.mark.parametrize(
    ("name", "asks", "buttons", "reacts"),
    [
        ("telegram", True, True, True),
        ("signal", False, False, True),
        ("slack", True, True, False),
        ("irc", False, False, False),
    ],
)
async def test_what_a_channel_can_do_is_told(
    tmp_path: Path, name: str, asks: bool, buttons: bool, reacts: bool
) -> None:
    model = ScriptedModel(["ok"], repeat=True)
    async with running(tmp_path / "h", model, FakeChannel(name)) as app:
        inbound = Inbound(Target(name, "1"), Sender("1", owner=True), "e1", "hi", 0)
        await app.wait((await app.submit(inbound)).id)
    found = sections(model.requests[0])
    assert ("rely on that and wait" in found["Approvals"]) is asks
    assert ("exact `/approve …` command" in found["Approvals"]) is not asks
    assert ("Inline buttons" in found["Messaging"]) is buttons and ("Reactions" in found) is reacts
    assert f"channel={name}" in found["Runtime"]


@pytest.mark.seed(192)
async def test_the_config_turns_the_knobs(tmp_path: Path) -> None:
    commands = {"ownerAllowFrom": ["telegram:12345"], "ownerDisplay": "hash", "ownerDisplaySecret": "s"}
    found = sections(await ask(tmp_path / "h", commands=commands, memory={"citations": "off"}))
    assert "12345" not in str(found) and "Allowlisted: " in found["Authorized Senders"]
    assert "Do not mention paths or lines" in found["Memory Recall"]


@pytest.mark.seed(194, 195, 196)
async def test_a_provider_replaces_three_sections_and_adds_above_and_below(tmp_path: Path) -> None:
    said = PromptContribution("PREFIX", "SUFFIX", tool_call_style="## Tool Call Style\nTCS", execution_bias="")
    vendor = Vendor("acme", "Acme", "openai-completions", "http://127.0.0.1:9/v1", keyless=True, prompt=lambda m: said)
    raw = {"agents": {"defaults": {"model": "acme/m"}}, "models": {"providers": {"acme": {"models": [{"id": "m"}]}}}}
    model = ScriptedModel(["ok"], repeat=True)
    given = PluginContributions(vendors={"acme": vendor})
    app = App(settings(tmp_path / "h", **raw), {}, SystemClock(), model=model, given=given)
    await app.start()
    try:
        await tell(app, "hi")
    finally:
        await app.stop()
    prompt, found = model.requests[0].prompt, sections(model.requests[0])
    assert found["Tool Call Style"].startswith("TCS\n") and "Execution Bias" not in found and "Safety" in found
    assert "PREFIX" in prompt.stable and "SUFFIX" in prompt.volatile
    assert "PREFIX" not in prompt.volatile and "SUFFIX" not in prompt.stable


@pytest.mark.seed(198)
@pytest.mark.parametrize(("ref", "there"), [("openai/gpt-5.5", True), ("openai/gpt-4.1", False)])
async def test_the_overlay_of_a_family(tmp_path: Path, ref: str, there: bool) -> None:
    raw = {"agents": {"defaults": {"model": ref}}, "models": {"providers": {"openai": {"apiKey": "k"}}}}
    request = await ask(tmp_path / "h", **raw)
    covered = (
        "Keep the persona|Be brief|Use a tool whenever|make them together|every item asked for|check the result against"
    )
    for words in [*covered.split("|"), "If context is missing", "leave no process behind"]:
        assert (words in request.prompt.stable) is there, words
    assert "A request that can be acted on" in request.prompt.stable


@pytest.mark.seed(205, 206)
@pytest.mark.parametrize("section", ["exec", "bash"])
@pytest.mark.parametrize("rule", ["ask: 'off'", "security: 'full'"])
async def test_the_agent_cannot_open_its_own_commands(tmp_path: Path, section: str, rule: str) -> None:
    home, written = tmp_path / "h", list[str]()

    def patch(request: ModelRequest) -> Any:
        written.append((home / "palinurus.json").read_text())
        base = request.messages[-1].text.rpartition("baseHash: ")[2]
        raw = f"{{tools: {{{section}: {{{rule}}}}}}}"
        return call_tools(("gateway", {"action": "config.patch", "raw": raw, "baseHash": base}))

    request = await ask(home, scripted=[call_tools(("gateway", {"action": "config.get"})), patch, say("no")])
    result = request.messages[-1]
    assert isinstance(result, ToolResult) and result.isError and f"tools.{section}." in result.text
    assert (home / "palinurus.json").read_text() == written[0]
