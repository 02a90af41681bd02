"""Facts to begin with: a full agent, everything switched on that can be."""

from __future__ import annotations

from typing import Any

from palinurus.core.prompt.facts import DocsFact, FileFact, PromptFacts, PromptOptions, SandboxFact, SkillFact, ToolFact

EVERY = (
    "read", "exec", "process", "cron", "message", "gateway", "sessions_list", "sessions_send", "sessions_spawn",
    "subagents", "session_status", "memory_search", "memory_get", "skill_workshop", "update_plan",
)  # fmt: skip

# Section -> how it begins. All of them, in order.
HEADS: dict[str, str] = {
    "identity": "You are a personal assistant running inside Palinurus.",
    "tooling": "## Tooling",
    "delegation": "## Sub-Agent Delegation",
    "tool_call_style": "## Tool Call Style",
    "execution_bias": "## Execution Bias",
    "safety": "## Safety",
    "control": "## Palinurus Control",
    "skills": "## Skills",
    "skill_workshop": "When a way of doing something",
    "memory": "## Memory Recall",
    "self_update": "## Palinurus Self-Update",
    "aliases": "## Model Aliases",
    "clock": "When you need the current date",
    "workspace": "## Workspace\n",
    "docs": "## Documentation",
    "sandbox": "## Sandbox",
    "senders": "## Authorized Senders",
    "time": "## Current Date & Time",
    "bootstrap_pending": "## Bootstrap Pending",
    "bootstrap_notice": "## Bootstrap Context Notice",
    "workspace_files": "## Workspace Files (injected)",
    "directives": "## Assistant Output Directives",
    "reasoning_format": "## Reasoning Format",
    "context": "# Project Context",
    "silent": "## Silent Replies",
    "dynamic_context": "# Dynamic Project Context",
    "embed": "## Control UI Embed",
    "messaging": "## Messaging",
    "approvals": "## Approvals",
    "voice": "## Voice (TTS)",
    "extra": "## Group Chat Context",
    "reactions": "## Reactions",
    "inside": "## Palinurus From Inside",
    "heartbeats": "## Heartbeats",
    "runtime": "## Runtime",
}


def tools(*names: str) -> tuple[ToolFact, ...]:
    return tuple(ToolFact(name, f"what {name} does") for name in names)


def full(**changes: Any) -> PromptFacts:
    """Facts with which every section of ours appears."""
    fields: dict[str, Any] = {
        "tools": tools(*EVERY),
        "workspace": "/home/a/work",
        "timezone": "Europe/Vienna",
        "files": (
            FileFact("SOUL.md", "I am calm."),
            FileFact("AGENTS.md", "Be kind.", truncated=True),
            FileFact("HEARTBEAT.md", "Check the mail."),
        ),
        "pending": True,
        "skills": (SkillFact("weather", "tells the weather", "~/skills/weather/SKILL.md"),),
        "docs": DocsFact(
            local="/opt/palinurus/docs",
            source="/opt/palinurus",
            settings=("/opt/palinurus/docs/configuration.md", "/opt/palinurus/docs/configuration-reference.md"),
        ),
        "sandbox": SandboxFact("/workspace", mount="/agent", elevated=True),
        "knobs": PromptOptions(
            owners=("+43123",),
            aliases=(("fast", "fake/mini"),),
            delegation="prefer",
            voice="Speak slowly.",
            heartbeat="Look around.",
        ),
        "tagged": True,
        "agent": "main",
        "host": "box",
        "os": "Linux (x86_64)",
        "python": "3.11.7",
        "shell": "sh",
        "model": "fake/m",
        "channel": "webchat",
        "capabilities": ("reactions",),
        "kind": "group",
        "reactions": "minimal",
        "extra": "This is a group about boats.",
    }
    return PromptFacts(**{**fields, **changes})
