"""Keys of skills: for commands of whoever follows the skill, and in nothing that is said or kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flow.test_app import running, until
from palinurus.core.types.inbound import Sender
from palinurus.core.types.messages import ToolResult
from palinurus.testing.channel import FakeChannel
from palinurus.testing.model import ScriptedModel, call_tools, say
from support import inbound

KEY, OTHER = "canary-of-the-weather", "canary-of-the-news"
SKILL = """---
name: {name}
description: What is it like outside.
metadata: {{"openclaw": {{"primaryEnv": "{variable}"}}}}
---
Ask the service.
"""
LOOK = "echo [${WEATHER_KEY:+weather}${NEWS_KEY:+news}] $WEATHER_KEY $WEATHER_REGION"
ENTRIES = {
    "weather": {"apiKey": KEY, "env": {"WEATHER_REGION": "north-by-northwest"}},
    "news": {"apiKey": OTHER},
}


def furnish(home: Path) -> Path:
    for name, variable in (("weather", "WEATHER_KEY"), ("news", "NEWS_KEY")):
        folder = home / "workspace" / "skills" / name
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(SKILL.format(name=name, variable=variable))
    return home / "workspace" / "skills" / "weather" / "SKILL.md"


async def told(home: Path, *calls: tuple[str, dict[str, Any]], who: Sender | None = None) -> list[str]:
    furnish(home)
    model = ScriptedModel([*(call_tools(one) for one in calls), say("done")])
    async with running(home, model, FakeChannel(), skills={"entries": ENTRIES}) as app:
        sender = who or Sender("human", owner=True)
        await app.wait((await app.submit(inbound("what is it like?", sender=sender))).id)
    kept = "".join(path.read_text(errors="replace") for path in (home / "agents").rglob("*") if path.is_file())
    assert KEY not in kept and OTHER not in kept and KEY not in str(model.requests)
    return [m.text for m in model.requests[-1].messages if isinstance(m, ToolResult)]


async def test_only_who_follows_the_skill_has_its_key(tmp_path: Path) -> None:
    read = ("read", {"path": "skills/weather/SKILL.md"})
    before, _, after = await told(tmp_path / "h", ("exec", {"command": LOOK}), read, ("exec", {"command": LOOK}))
    assert "[]" in before and "north" not in before
    # the command had it; what it printed of it nobody sees, what is no secret they do
    assert "[weather] *** north-by-northwest" in after


async def test_a_skill_that_could_not_be_read_gives_nothing(tmp_path: Path) -> None:
    wrong = ("read", {"path": "skills/weather/NO.md"})
    _, after = await told(tmp_path / "h", wrong, ("exec", {"command": LOOK}))
    assert "[]" in after


async def test_the_next_turn_of_the_conversation_still_follows_it(tmp_path: Path) -> None:
    home = tmp_path / "h"
    furnish(home)
    turns = [
        call_tools(("read", {"path": "skills/weather/SKILL.md"})),
        say("read"),
        call_tools(("exec", {"command": LOOK})),
    ]
    model = ScriptedModel([*turns, say("done"), say("x")])
    async with running(home, model, FakeChannel(), skills={"entries": ENTRIES}) as app:
        for text in ("read it", "use it"):
            await app.wait((await app.submit(inbound(text, sender=Sender("human", owner=True)))).id)
    (shown,) = [m.text for m in model.requests[-1].messages if isinstance(m, ToolResult) and m.toolName == "exec"]
    assert "[weather] ***" in shown and KEY not in str(model.requests)


async def test_the_word_of_an_ended_command_holds_none(tmp_path: Path) -> None:
    home = tmp_path / "h"
    furnish(home)
    started = call_tools(("exec", {"command": f"{LOOK}; sleep 0.2", "background": True}))
    read = call_tools(("read", {"path": "skills/weather/SKILL.md"}))
    model = ScriptedModel([read, started, say("started"), say("NO_REPLY"), say("NO_REPLY")])
    async with running(home, model, FakeChannel(), skills={"entries": ENTRIES}) as app:
        await app.wait((await app.submit(inbound("go", sender=Sender("human", owner=True)))).id)
        await until(lambda: len(model.requests) >= 4)
    assert "[weather] ***" in str(model.requests[3].messages[-1]) and KEY not in str(model.requests)
