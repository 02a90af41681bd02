"""What people type and what they read: the words of directives, bubbles of tools, tags and marks; through the App."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flow.test_app import running, until
from flow.test_directives import shown, tell
from palinurus.app import App
from palinurus.sessions.record import SessionRecord
from palinurus.testing.channel import FakeChannel
from palinurus.testing.model import ScriptedModel, call_tools, say

THINKS = {"baseUrl": "http://127.0.0.1:9/v1", "apiKey": "k", "models": [{"id": "m", "reasoning": True}]}
MODELS = {"providers": {"fake": THINKS}}
FREE = {"exec": {"security": "full", "ask": "off"}}
LOOSE = {"defaults": {"model": "fake/m", "sandbox": {"contain": "off"}}}


async def stored(app: App, *names: str) -> list[Any]:
    """What the session keeps."""
    row = await app.store.session("agent:main:main")
    record = SessionRecord.decode(row.data) if row is not None else SessionRecord("")
    return [getattr(record, name) for name in names]


SPELT = {
    "off": "off", "minimal": "minimal think", "low": "low think_hard", "medium": "medium think_harder",
    "high": "high highest ultrathink",
}  # fmt: skip
FORMS = ("/think {}", "/t {}", "/think:{}", "/thinking {}", "  /THINK:   {}\n", "/thinking:{}")


@pytest.mark.seed(1, 2, 3, 5, 6, 7, 8, 9, 15, 57, 58, 61, 62, 63)
async def test_every_spelling_of_a_level_sets_it_for_the_session(tmp_path: Path) -> None:
    model = ScriptedModel(["ok"], repeat=True)
    async with running(tmp_path / "h", model, FakeChannel(), models=MODELS) as app:
        said = [(form.format(word.replace("_", " ")), level) for level, words in SPELT.items() for word in words.split()
                for form in FORMS]  # fmt: skip
        for text, level in said:
            told = "Thinking disabled." if level == "off" else f"Thinking level set to {level}."
            assert await tell(app, text) == told and await stored(app, "thinkingLevel") == [level]
        assert not model.requests
        await tell(app, "hello")
        await tell(app, "hello again")
    assert [request.level for request in model.requests] == [said[-1][1]] * 2


@pytest.mark.seed(10, 14)
@pytest.mark.parametrize("word", [*"xhigh x-high x_high extra-high extra_high ultrathink+".split(), "extra high"])
async def test_every_spelling_of_xhigh(tmp_path: Path, word: str) -> None:
    opted = [{"id": "m", "reasoning": True, "compat": {"supportedReasoningEfforts": ["low", "high", "xhigh"]}}]
    model = ScriptedModel(["ok"], repeat=True)
    async with running(
        tmp_path / "h", model, FakeChannel(), models={"providers": {"fake": {**THINKS, "models": opted}}}
    ) as app:
        assert await tell(app, f"/think {word}") == "Thinking level set to xhigh."
        assert await tell(app, "/think off") == "Thinking disabled."
        await tell(app, f"look /t {word} here")
    assert (model.requests[0].level, model.requests[0].messages[-1].text) == ("xhigh", "look here")


@pytest.mark.seed(4)
@pytest.mark.parametrize(
    ("text", "level", "rest"),
    [
        ("/think high look", "high", "look"),
        ("look /think:low here", "low", "look here"),
        ("look\n/t minimal", "minimal", "look"),
        ("look /think off, then go", "off", "look, then go"),
        ("見て /thinking high ください", "high", "見て ください"),
        ("think high of me", "medium", "think high of me"),
        ("/think about it", "medium", "/think about it"),
        ("see `/think high`", "medium", "see `/think high`"),
        ("in /etc/think high", "medium", "in /etc/think high"),
    ],
)
async def test_a_level_inside_a_message(tmp_path: Path, text: str, level: str, rest: str) -> None:
    model = ScriptedModel(["ok"], repeat=True)
    async with running(tmp_path / "h", model, FakeChannel(), models=MODELS) as app:
        assert await tell(app, text) == "ok" == await tell(app, "next")
    assert [(r.level, r.messages[-1].text) for r in model.requests] == [(level, rest), ("medium", "next")]


LEVELS: dict[str, tuple[str, dict[str, tuple[str, Any]]]] = {  # command -> field, word -> reply and what is kept
    "/fast": ("fastMode", {
        "auto": ("Fast mode set to auto.", "auto"), "on": ("Fast mode enabled.", True),
        "off": ("Fast mode disabled.", False),
    }),
    "/verbose": ("verboseLevel", {
        "on": ("Verbose logging enabled.", "on"), "full": ("Verbose logging set to full.", "full"),
        "off": ("Verbose logging disabled.", "off"),
    }),
    "/trace": ("traceLevel", {"on": ("Plugin trace enabled.", "on"), "off": ("Plugin trace disabled.", "off")}),
    "/reasoning": ("reasoningLevel", {
        "on": ("Reasoning visibility enabled.", "on"), "stream": ("Reasoning stream enabled.", "stream"),
        "off": ("Reasoning visibility disabled.", "off"),
    }),
}  # fmt: skip
SHORT = {"/verbose": "/v", "/reasoning": "/reason"}


@pytest.mark.seed(59, 60, 65, 68, 69, 70, 71, 72, 73, 89, 90, 91, 92, 96, 107, 108, 110, 113, 117)
async def test_the_other_levels_are_set_asked_for_refused_and_cleared(tmp_path: Path) -> None:
    model = ScriptedModel(["ok"], repeat=True)
    async with running(tmp_path / "h", model, FakeChannel(), models=MODELS) as app:
        for command, (field, words) in LEVELS.items():
            for word, (told, kept) in words.items():
                for name in (command, SHORT.get(command, command)):
                    assert await tell(app, f"{name} {word}") == told and await stored(app, field) == [kept]
                    for asked in (name, f"{name}:"):
                        assert (await tell(app, asked)).splitlines()[0].endswith(f": {word}."), asked
                    assert "big" in await tell(app, f"{name} big") and await stored(app, field) == [kept]
            for clear in "default inherit clear reset unpin".split():
                await tell(app, f"{command} {next(iter(words))}")
                assert "reset to default" in await tell(app, f"{command} {clear}") and await stored(app, field) == [
                    None
                ]
            assert "off" in (await tell(app, command)).splitlines()[0]
        assert (await tell(app, "/fast status")).startswith("Current fast mode: off")
        for clear in "default inherit clear reset unpin".split():
            await tell(app, "/think high")
            assert await tell(app, f"/think {clear}") == "Thinking level reset to default."
            assert (await tell(app, "/think:")).startswith("Current thinking level: medium.")
    assert not model.requests


@pytest.mark.seed(74, 88)
async def test_status_shows_fast_mode_where_it_is_on(tmp_path: Path) -> None:
    agents = {"defaults": {"model": "fake/m"}, "list": [{"id": "main", "fastModeDefault": True}]}
    async with running(tmp_path / "h", ScriptedModel([]), FakeChannel(), agents=agents, models=MODELS) as app:
        for word, words in (("default", ["Fast"]), ("off", []), ("auto", ["Fast:auto"]), ("on", ["Fast"])):
            await tell(app, f"/fast {word}")
            line = (await tell(app, "/status")).splitlines()[2]
            assert [part for part in line.split(" · ") if part.startswith("Fast")] == words


BAD, CHECK = ("read", {"path": "nope"}), ("exec", {"command": "node --check /tmp/app.js"})


@pytest.mark.seed(97, 98, 99, 100, 101, 104, 105, 323)
@pytest.mark.parametrize(
    ("level", "detail", "bubbles"),
    [
        ("off", "explain", ["⚠️ 📖 Read failed: nope"]),
        ("on", "explain", ["🛠️ Exec: check JS syntax for /tmp/app.js", "📊 Session Status", "📖 Read: nope",
                           "⚠️ 📖 Read failed: nope"]),
        ("on", "raw", ["🛠️ Exec: check JS syntax for /tmp/app.js, node --check /tmp/app.js", "📊 Session Status",
                       "📖 Read: nope", "⚠️ 📖 Read failed: nope"]),
        ("full", "explain", ["🛠️ Exec: check JS syntax for /tmp/app.js", "📊 Session Status", "📖 Read: nope",
                             "⚠️ 📖 Read failed: nope\n```txt\nnope does not exist\n```"]),
    ],
)  # fmt: skip
async def test_the_bubbles_of_tools(tmp_path: Path, level: str, detail: str, bubbles: list[str]) -> None:
    script = [
        call_tools(CHECK, ("session_status", {}), BAD),
        call_tools(("exec", {"command": "seq 9000"})),
        say("done"),
    ]
    model, channel = ScriptedModel(script), FakeChannel()
    agents = {"defaults": {**LOOSE["defaults"], "toolProgressDetail": detail}}
    async with running(tmp_path / "h", model, channel, agents=agents, tools=FREE) as app:
        await tell(app, f"/verbose {level}")
        assert await tell(app, "go") == "done"
        await until(lambda: "done" in shown(channel))
    told = shown(channel, "tool")
    assert [line for line in bubbles if line not in told] == []
    assert all("nope does not exist" not in text for text in told) is (level != "full")
    outputs = [text for text in told if text.startswith("```txt\n")]
    assert bool(outputs) is (level == "full") and all(len(text) < 4000 for text in outputs)
    assert sum("\n8999\n" in text and text.startswith("```txt\n1\n") for text in outputs) == (level == "full")
    if level != "off":
        assert told.index(bubbles[0]) < told.index(bubbles[2]) < told.index(bubbles[3])


@pytest.mark.seed(115, 119, 120, 121, 309, 311, 312, 313, 316)
@pytest.mark.parametrize(
    ("said", "reads", "thoughts"),
    [
        ("<think>a plan</think>The answer.", "The answer.", ["Thinking\na plan"]),
        ("The answer.\n<think>a plan", "The answer.", ["Thinking\na plan"]),
        ("<think>The answer.", "The answer.", []),
        ("<thinking>a</thinking>The <think>b</think>answer.", "The answer.", ["Thinking\nab"]),
        ("Write `<think>` like this.", "Write `<think>` like this.", []),
        ("[[reply_to_current]] The answer.", "The answer.", []),
        ("The answer. [[media:https://x.example/a.png]]", "The answer.", []),
        ("[[audio_as_voice]]The answer.", "The answer.", []),
    ],
)
async def test_tags_and_marks_of_an_answer(tmp_path: Path, said: str, reads: str, thoughts: list[str]) -> None:
    for reasoning in ("off", "on"):
        model, channel = ScriptedModel([say(said)], chunk=3), FakeChannel(owner=True)
        async with running(tmp_path / reasoning, model, channel) as app:
            await tell(app, f"/reasoning {reasoning}", push=False)
            await channel.receive("send https://x.example/a.png", event="e1")
            await until(lambda: bool(shown(channel, "final")))  # noqa: B023
        assert shown(channel, "final") == [reads]
        assert shown(channel, "reasoning") == (thoughts if reasoning == "on" else [])
        (reply,) = (reply for reply in channel.sends if reply.kind == "final")
        assert bool(reply.reply_to) is ("reply_to_current" in said) or not said.startswith("[[reply")
        assert reply.media == (("https://x.example/a.png",) if "media:" in said else ())
        assert reply.voice is ("audio_as_voice" in said)


@pytest.mark.seed(307, 308, 319, 320)
async def test_blocks_of_the_usual_size_end_where_a_thought_does(tmp_path: Path) -> None:
    paragraph = "One sentence of some words. " * 14  # 391 characters
    text = "\n\n".join([paragraph.strip()] * 8)
    model, channel = ScriptedModel([say(text)], chunk=11), FakeChannel()
    agents = {"defaults": {"model": "fake/m", "blockStreamingCoalesce": {"idleMs": 0}}}
    channels = {"fake": {"blockStreaming": True, "dmPolicy": "open", "allowFrom": ["*"]}}
    async with running(tmp_path / "h", model, channel, agents=agents, channels=channels) as app:
        (ident,) = await channel.receive("go", event="e1")
        await app.wait(ident)
        await until(lambda: sum(text.count("One") for text in channel.texts) == 8 * 14)
    assert len(channel.texts) > 2 and all(one.endswith(".") and one.startswith("One") for one in channel.texts)
    assert all(800 <= len(one) <= 1200 for one in channel.texts[:-1])  # defaults
    assert {len(one.split("\n\n")[-1]) for one in channel.texts} == {len(paragraph.strip())}  # whole paragraphs
