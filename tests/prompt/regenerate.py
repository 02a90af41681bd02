"""Prompts as they are sent on typical occasions, kept as text beside this file.

After a wanted change: `python tests/prompt/regenerate.py`, then read the difference before committing it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec

from palinurus.agent.plan.prompt import PromptBuilder, PromptOccasion, PromptSupply
from palinurus.config.sections.agents import PromptSettings
from palinurus.config.settings import AgentSettings, Settings
from palinurus.core.prompt.facts import DocsFact, FileFact, SkillFact
from palinurus.core.prompt.render import render_prompt
from palinurus.core.types.keys import ModelRef, SessionKey
from palinurus.core.types.model import ModelSpec
from palinurus.core.types.tool import Tool
from palinurus.providers.catalog import Catalog

HERE = Path(__file__).parent
BOUNDARY = "\n\n=========================== cache boundary ===========================\n\n"
MODEL = ModelSpec(ModelRef("fake", "m"), "openai-completions")
GPT = ModelSpec(ModelRef("openai", "gpt-5.5"), "openai-responses")

TOOLS = (
    "read", "write", "edit", "grep", "find", "ls", "exec", "process", "web_search", "web_fetch", "cron", "message",
    "gateway", "sessions_list", "sessions_send", "sessions_spawn", "subagents", "session_status", "memory_search",
    "memory_get", "update_plan",
)  # fmt: skip
CHILD = tuple(name for name in TOOLS if name not in ("cron", "gateway", "memory_search", "memory_get", "message"))
SKILLS = (
    SkillFact("calendar", "Reads and writes the calendar.", "~/.palinurus/skills/calendar/SKILL.md"),
    SkillFact("weather", "Tells the weather of a place & a day.", "~/ws/skills/weather/SKILL.md"),
)
FILES = (
    FileFact("AGENTS.md", "# Rules\n\nAsk before deleting anything."),
    FileFact("SOUL.md", "Calm, curious, a little dry."),
    FileFact("TOOLS.md", "The printer is called Gutenberg."),
    FileFact("USER.md", "[MISSING] Expected at: /home/ada/ws/USER.md", missing=True),
)
BEAT = FileFact("HEARTBEAT.md", "- [ ] Is there mail from Charles?")
SMALL = tuple(file for file in FILES if file.name in ("AGENTS.md", "TOOLS.md"))

SCENES: dict[str, tuple[PromptOccasion, tuple[str, ...], PromptSupply]] = {
    "telegram-direct": (
        PromptOccasion(SessionKey("main", "main"), MODEL, "low", "telegram"),
        TOOLS,
        PromptSupply(FILES, False, SKILLS),
    ),
    "discord-group": (
        PromptOccasion(
            SessionKey("main", "discord:channel:42"),
            GPT,
            "medium",
            "discord",
            "channel",
            extra="The channel is about boats.",
        ),
        TOOLS,
        PromptSupply(FILES, False, SKILLS),
    ),
    "heartbeat": (
        PromptOccasion(SessionKey("main", "main"), MODEL, "off", "telegram"),
        TOOLS,
        PromptSupply((*FILES, BEAT), False, SKILLS),
    ),
    "subagent": (
        PromptOccasion(
            SessionKey("main", "subagent:7f3a"), MODEL, "low", "telegram", extra="Your task: count the boats."
        ),
        CHILD,
        PromptSupply(SMALL, False, SKILLS),
    ),
    "cron": (
        PromptOccasion(SessionKey("main", "cron:morning:run:1"), MODEL, "off", "telegram"),
        CHILD,
        PromptSupply(SMALL),
    ),
    "webchat": (
        PromptOccasion(SessionKey("main", "main"), MODEL, "high", "webchat", reasoning="stream"),
        TOOLS,
        PromptSupply((*FILES, FileFact("BOOTSTRAP.md", "Who are you? Who am I?")), True, SKILLS),
    ),
}


def rendered(name: str) -> str:
    """One scene's prompt, with the machine's own facts replaced."""
    occasion, names, supply = SCENES[name]
    prompt = PromptSettings(owners=("+431234567",))
    agent = AgentSettings(
        "main", "main", "/home/ada/ws", model="fake/m", aliases={"quick": "fake/mini"}, prompt=prompt,
        user_timezone="Europe/London",
    )  # fmt: skip
    settings = Settings("/home/ada/.palinurus", {"main": agent}, "main")
    gatherer = PromptBuilder(
        settings,
        Catalog(settings, {}),
        lambda agent, key: supply,
        speech=lambda agent: "inbound" if name == "webchat" else "off",
    )
    facts = gatherer.facts("main", [_tool(tool) for tool in names], occasion)
    fixed: dict[str, Any] = {
        "docs": DocsFact(
            local="/opt/palinurus/docs",
            source="/opt/palinurus",
            hub="https://clawhub.ai",
            settings=("/opt/palinurus/docs/configuration.md", "/opt/palinurus/docs/configuration-reference.md"),
        ),
        "host": "analytical-engine",
        "os": "Linux (x86_64)",
        "python": "3.11.7",
        "repo": "",
        "updates": False,
        "default_model": "fake/m",
    }
    made = render_prompt(msgspec.structs.replace(facts, **fixed))
    return made.stable + BOUNDARY + made.volatile + "\n"


def _tool(name: str) -> Tool:
    async def run() -> Any:
        raise AssertionError

    return Tool(name, f"The {name} tool. More about it.", {}, run)


def main() -> int:
    """Write every scene."""
    for name in SCENES:
        (HERE / f"{name}.txt").write_text(rendered(name), encoding="utf-8")
    print(f"{len(SCENES)} prompts written to {HERE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
