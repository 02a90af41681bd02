"""Plugins in the running program: commands, tools under policy, channels, vendors, skills."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flow.test_app import running, until
from palinurus.core.types.inbound import Sender, Target
from palinurus.core.types.model import ModelSpec
from palinurus.testing.channel import FakeChannel
from palinurus.testing.model import ScriptedModel, call_tools, say
from palinurus.testing.server import ModelServer
from plugins.kit import plugin
from support import inbound

OWNER = Sender("me", owner=True)
TOOL = "from palinurus import tool\n@tool\ndef echo(x: str) -> str:\n    return f'heard {x}'\napi.tool(echo)"
ENABLED: dict[str, Any] = {"entries": {"one": {"enabled": True}}}


async def told(app: Any, text: str, sender: Sender = OWNER) -> str:
    return str((await app.wait((await app.submit(inbound(text, sender=sender, push=False))).id)).note)


async def test_commands_stand_beside_ours(tmp_path: Path) -> None:
    code = "\n".join(
        (
            "api.command('ahoy', 'greets', lambda asked: f'{asked.args} {asked.owner} {asked.session}', usage='[WHO]')",
            "api.command('secret', 'for one', lambda asked: 'sesame', owner=True)",
            "async def late(asked): return 'later'",
            "api.command('late', 'waits', late)",
            "api.command('bad', 'fails', lambda asked: 1 / 0)",
        )
    )
    plugin(tmp_path / "h" / "plugins" / "one", code)
    async with running(tmp_path / "h", ScriptedModel([say("model")], repeat=True), plugins=ENABLED) as app:
        assert await told(app, "/ahoy you") == "you True agent:main:main"
        assert await told(app, "/late") == "later"
        assert "failed" in await told(app, "/bad")
        friend = Sender("friend", allowed=True)
        assert await told(app, "/secret", friend) == "/secret is for the owner only."
        assert await told(app, "/secret") == "sesame"
        assert "/ahoy [WHO] - greets" in await told(app, "/commands")
        assert "greets" in await told(app, "/help ahoy")
        assert "Did you mean /ahoy?" in await told(app, "/ahoi")
        assert await told(app, "/ahoy", Sender("stranger")) == "model"  # who may not command talks to the agent


async def test_commands_cannot_replace_ours(tmp_path: Path) -> None:
    plugin(tmp_path / "h" / "plugins" / "one", "api.command('status', 'x', lambda asked: 'mine')")
    async with running(tmp_path / "h", ScriptedModel([]), plugins=ENABLED) as app:
        assert "'status' is the program's own" in app.plugins.broken[0].reason
        assert await told(app, "/status") != "mine"


@pytest.mark.parametrize(
    ("tools", "offered"),
    [
        ({}, True),
        ({"deny": ["group:plugins"]}, False),
        ({"deny": ["one"]}, False),
        ({"profile": "coding"}, False),
        ({"profile": "coding", "alsoAllow": ["one"]}, True),
        ({"profile": "coding", "alsoAllow": ["group:plugins"]}, True),
    ],
)
async def test_tools_are_under_the_policy(tmp_path: Path, tools: dict[str, Any], offered: bool) -> None:
    plugin(tmp_path / "h" / "plugins" / "one", TOOL)
    model = ScriptedModel([call_tools(("echo", {"x": "hi"})), say("done")])
    async with running(tmp_path / "h", model, plugins=ENABLED, tools=tools) as app:
        await told(app, "go")
    assert ("echo" in {spec.name for spec in model.requests[0].tools}) is offered
    assert model.requests[1].messages[-1].text.startswith("heard hi" if offered else "Tool echo not found")


async def test_a_plugins_channel_is_opened_and_a_broken_one_left_out(tmp_path: Path) -> None:
    code = (
        "from palinurus.testing.channel import FakeChannel\napi.channel('pigeon', lambda config: FakeChannel('pigeon'))"
    )
    plugin(tmp_path / "h" / "plugins" / "one", f"{code}\napi.channel('crow', lambda config: 1 / 0)")
    channels = {"pigeon": {"enabled": True, "allowFrom": ["human"]}, "crow": {"enabled": True}}
    async with running(tmp_path / "h", ScriptedModel([say("coo")]), plugins=ENABLED, channels=channels) as app:
        pigeon = app.channels["pigeon"]
        assert isinstance(pigeon, FakeChannel) and "crow" not in app.channels
        await pigeon.receive("hello", event="e")
        await until(lambda: pigeon.texts == ["coo"])


async def test_a_plugins_vendor_answers(tmp_path: Path) -> None:
    async with ModelServer([say("from afar")]) as server:
        vendor = f"Vendor('acme', 'Acme', 'openai-completions', {server.url!r}, ('ACME_KEY',), (Known('one'),))"
        code = f"from palinurus.core.types.vendor import VendorModel as Known, Vendor\napi.vendor({vendor})"
        plugin(tmp_path / "h" / "plugins" / "one", code)
        env = {"vars": {"ACME_KEY": "k"}}
        model = {"defaults": {"model": "acme/one"}}
        async with running(tmp_path / "h", None, plugins=ENABLED, env=env, agents=model) as app:  # type: ignore[arg-type]
            assert await told(app, "hello") == "from afar"
            agent = app.settings.agents["main"]
            assert "acme/one" in {str(m.ref) for m in app.catalog.all(agent)}
            assert isinstance(app.catalog.find("one", agent), ModelSpec)


@pytest.mark.seed(140, 141, 142)
async def test_a_tool_plugin_asks_for_the_levels_of_a_model(tmp_path: Path) -> None:
    """By provider and model, with what the config opts into; a vendor with the hooks of older plugins has its say."""
    code = "\n".join(
        (
            "from palinurus import tool",
            "from palinurus.core.types.vendor import VendorModel, Vendor",
            "known = (VendorModel('one', reasoning=True),)",
            "acme = Vendor('acme', 'Acme', 'openai-completions', 'http://127.0.0.1:9', (), known)",
            "api.vendor(acme, is_binary_thinking=lambda m: True, resolve_default_thinking_level=lambda m: 'low')",
            "@tool",
            "def think(provider: str, model: str, level: str) -> str:",
            "    row = api.resolve_thinking_policy(provider, model)",
            "    return f'{row.thinkingOptions} {row.thinkingDefault} {api.normalize_thinking_level(level)}'",
            "api.tool(think)",
        )
    )
    plugin(tmp_path / "h" / "plugins" / "one", code)
    compat = {"supportedReasoningEfforts": ["low", "high", "xhigh"]}
    lab = {"baseUrl": "http://127.0.0.1:9/v1", "apiKey": "k"}
    lab["models"] = [{"id": "m"}, {"id": "deep", "reasoning": True, "compat": compat}]  # type: ignore[assignment]
    asked = (("acme", "one", "Extra High"), ("fake", "deep", "bogus"))
    calls = [("think", dict(zip(("provider", "model", "level"), one, strict=True))) for one in asked]
    model = ScriptedModel([call_tools(*calls), say("done")])
    models = {"providers": {"fake": lab}}
    async with running(tmp_path / "h", model, plugins=ENABLED, models=models) as app:
        await told(app, "go")
    older, opted = (message.text for message in model.requests[1].messages[-2:])
    assert "('off', 'on') low xhigh" in older
    assert "'xhigh')" in opted and opted.rstrip().endswith("None")


@pytest.mark.seed(394)
@pytest.mark.parametrize("enabled", [True, False])
async def test_skills_of_plugins(tmp_path: Path, enabled: bool) -> None:
    folder = plugin(tmp_path / "h" / "plugins" / "one", "api.skills('more')", skills=["./skills"])
    for where, name in (("skills", "tides"), ("more", "winds")):
        (folder / where / name).mkdir(parents=True)
        (folder / where / name / "SKILL.md").write_text(f"---\nname: {name}\ndescription: About {name}.\n---\n")
    config = {"entries": {"one": {"enabled": enabled}}}
    model = ScriptedModel([say("aye")])
    async with running(tmp_path / "h", model, plugins=config) as app:
        await told(app, "hello")
    text = model.requests[0].prompt.text
    assert ("<name>tides</name>" in text, "<name>winds</name>" in text) == (enabled, enabled)


async def test_a_broken_plugin_does_not_keep_the_program_from_starting(tmp_path: Path) -> None:
    plugin(tmp_path / "h" / "plugins" / "one", "raise SystemExit('no')")
    async with running(tmp_path / "h", ScriptedModel([say("here")]), plugins=ENABLED) as app:
        assert app.ready()[0] and await told(app, "hello") == "here"
        assert [b.id for b in app.plugins.broken] == ["one"]


async def test_events_of_messages_name_their_session(tmp_path: Path) -> None:
    seen: list[dict[str, Any]] = []
    async with running(tmp_path / "h", ScriptedModel([say("x")], repeat=True)) as app:
        app.hooks.on("message_received", seen.append)
        told_twice = inbound("hello", event="same", target=Target("fake", "chat"))
        first = await app.submit(told_twice)
        await app.submit(told_twice)
        await app.wait(first.id)
    assert len(seen) == 1 and seen[0]["messageId"] == first.id and seen[0]["sessionKey"].startswith("agent:main:")


@pytest.mark.seed(350, 352)
async def test_plugins_say_in_which_order_their_hooks_are_asked(tmp_path: Path) -> None:
    for name, priority in (("one", -1), ("three", 0), ("two", 5)):
        code = "api.hook('before_tool_call', lambda e: {{'params': {{'path': e['params']['path'] + '/{0}'}}}}, {1})"
        plugin(tmp_path / "h" / "plugins" / name, code.format(name, priority))
    model = ScriptedModel([call_tools(("ls", {"path": "."})), say("done")])
    entries = {"entries": {name: {"enabled": True} for name in ("one", "two", "three")}}
    async with running(tmp_path / "h", model, plugins=entries) as app:
        await told(app, "go")
    assert "two/three/one" in model.requests[1].messages[-1].text
